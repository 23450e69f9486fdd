#pragma once
// The step-time model: learns from measured steps how long a step takes, and says how much of a
// prompt a step may prefill while sequences decode, so that their next token comes in time. It also
// knows what one more row costs such a step, which decides how much drafting pays (draft.h).
//
// The model decides when something is computed, never what: bits do not depend on chunks.
//
// Not thread-safe: the owner's thread calls it.

#include <array>
#include <cstdint>
#include <vector>

namespace holdfast::engine {

/// Learns how long a step takes by its work, from the steps that were done. Not thread-safe.
class StepTimeModel {
 public:
  /// The work of a step: rows of sequences that decode, and prompt tokens, of both kinds ([0]
  /// decode-heavy, [1] prefill-heavy). Each kind goes over the weights by itself, at its own cost.
  struct Work {
    std::array<std::int32_t, 2> decoding = {0, 0};
    std::array<std::int64_t, 2> prompt = {0, 0};
    std::int32_t in_prefill =
        0;  // sequences whose prompt is not all computed, whether in this step or not
    std::array<std::int32_t, 2> extra_rows = {0,
                                              0};  // rows beyond one for each sequence that decodes
    std::int32_t all_decoding() const { return decoding[0] + decoding[1]; }
  };

  /// A step with sequences that decode may take at most `gap_us`; 0: as long as it takes; kEven:
  /// twice as long as one with them alone, three times while several prompts wait: small chunks of
  /// prompts cost more, and would make a queue longer.
  explicit StepTimeModel(std::int64_t gap_us) : gap_us_(gap_us) {}

  /// Learns from a step that took `took_us` microseconds.
  void learn(const Work& work, std::int64_t took_us);

  /// Returns how many prompt tokens may join a step: of those requested, as many as there is time
  /// for, in whole sixteens. A step without any yet gets kLeast all the same, so that every prompt
  /// goes on.
  std::int64_t allow(const Work& planned, bool prefill_heavy, std::int64_t requested) const;

  /// Returns what one more row costs a step of sequences that decode, as a share of that step.
  double row_share(bool prefill_heavy) const;

  static constexpr std::int64_t kEven = -1;
  static constexpr std::int64_t kEvenLeastUs = 50'000;     // nobody notices a gap below this
  static constexpr std::int64_t kEvenUnknownUs = 200'000;  // while prompts were in every step
  static constexpr std::int64_t kLeast = 32;
  static constexpr std::int64_t kUnknown = 128;            // while nothing is measured
  static constexpr double kRowAtFirst = 0.1;               // row_share() while nothing is measured
  static constexpr double kRowLeast = 0.01, kRowMost = 1;  // its bounds: computing alone costs that

 private:
  double decode_us(std::size_t kind, std::int32_t rows) const;
  double decode_us(const Work& work) const;
  double token_us(std::size_t kind) const;
  std::array<double, 2> shares_of(const Work& work, double took_us) const;
  void learn_decoding(std::size_t kind, std::int32_t rows, double took_us);
  void learn_extra_rows(const Work& work, double took_us);
  void learn_prompt(const Work& work, double took_us);
  double bound_us(const Work& planned) const;

  std::int64_t gap_us_;
  std::array<std::vector<double>, 2> decode_us_;  // of a kind by rows; below 0: not measured
  std::array<double, 2> token_us_ = {-1, -1};     // of a prompt; below 0: not measured
  struct ExtraRowCost {
    double rows = 0, steps = 0;  // so many cost so many steps; the latest count most
    void fade(double left) { rows *= left, steps *= left; }
  };
  std::array<ExtraRowCost, 2> extra_row_cost_;
};

}  // namespace holdfast::engine
