#pragma once
// How long steps take, learned from those that were run, and how much of a prompt a step may read
// beside sequences that decode, so that their next token comes in time. And what a row more costs
// such a step, which says how much guessing pays (draft.h).
//
// Decides when something is computed, never what: bits do not depend on chunks.
//
// Thread rule: none; its owner's thread.

#include <array>
#include <cstdint>
#include <vector>

namespace holdfast::engine {

class Pace {
 public:
  /// What a step computed: rows of sequences that decode, and prompt tokens, of both kinds
  /// (backend::Segment::reads): each kind goes over the weights by itself, at its own cost.
  struct Work {
    std::array<std::int32_t, 2> decoding = {0, 0};
    std::array<std::int64_t, 2> prompt = {0, 0};
    std::int32_t behind = 0;  // sequences whose prompt is not all read, whether in this step or not
    std::array<std::int32_t, 2> more = {0, 0};  // rows of those that decode beyond one for each
    std::int32_t all_decoding() const { return decoding[0] + decoding[1]; }
  };

  /// A step with sequences that decode shall take at most gap_us; 0: as long as it takes; kEven:
  /// twice as long as one with them alone, three times while several prompts wait: small parts of
  /// prompts cost more, and would make a queue longer.
  explicit Pace(std::int64_t gap_us) : gap_us_(gap_us) {}

  void learn(const Work& work, std::int64_t took_us);

  /// Prompt tokens that may join a step: of those wanted, as many as there is time for, in whole
  /// sixteens. A step without any yet gets kLeast all the same, so that every prompt goes on.
  std::int64_t allow(const Work& planned, bool reads, std::int64_t wanted) const;

  /// What a row more costs a step of these that decode, as a share of it.
  double row_share(bool reads) const;

  static constexpr std::int64_t kEven = -1;
  static constexpr std::int64_t kEvenLeastUs = 50'000;     // as nobody sees a gap below this
  static constexpr std::int64_t kEvenUnknownUs = 200'000;  // while prompts were in every step
  static constexpr std::int64_t kLeast = 32;
  static constexpr std::int64_t kUnknown = 128;  // while nothing has been learned
  static constexpr double kRowAtFirst = 0.1;     // row_share(), of many rows a tenth of a step each
  static constexpr double kRowLeast = 0.01, kRowMost = 1;  // computing alone costs as much

 private:
  double decode_us(std::size_t kind, std::int32_t rows) const;
  double decode_us(const Work& work) const;
  double token_us(std::size_t kind) const;
  std::array<double, 2> shares_of(const Work& work, double took_us) const;
  void learn_decoding(std::size_t kind, std::int32_t rows, double took_us);
  void learn_more(const Work& work, double took_us);
  void learn_prompt(const Work& work, double took_us);
  double bound_us(const Work& planned) const;

  std::int64_t gap_us_;
  std::array<std::vector<double>, 2> decode_us_;  // of a kind by rows; below 0: not known
  std::array<double, 2> token_us_ = {-1, -1};     // of a prompt; below 0: not known
  struct More {
    double rows = 0, steps = 0;  // so many cost so many steps; the latest count most
    void fade(double left) { rows *= left, steps *= left; }
  };
  std::array<More, 2> more_;
};

}  // namespace holdfast::engine
