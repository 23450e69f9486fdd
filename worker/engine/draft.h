#pragma once
// Guesses of the next tokens of a sequence from what it has said before (prompt lookup): where its
// last tokens came before, what followed them there is likely to follow again. No model is asked.
// After https://github.com/apoorvumang/prompt-lookup-decoding.
//
// The place is the one before which most tokens are the same. Where a grammar says what comes next,
// that is guessed. How often guesses were right behind so many is kept of each sequence, and a
// guess is as long as makes most tokens a second. What is guessed changes how long a token takes
// and nothing else.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace holdfast::grammar {
class Matcher;
}

namespace holdfast::engine {

/// Tokens of what a text's grammar says comes next. A model that would write more than one says it
/// in the longest, the last of which may go on behind that and is left out. `ids` is written anew.
void forced_tokens(grammar::Matcher& matcher, std::vector<std::int32_t>& ids);

/// One sequence's. Not thread-safe.
class Drafter {
 public:
  using TokenId = std::int32_t;

  /// What a guess costs.
  struct Price {
    double row = 0;              // of one token, as a share of a step without any
    std::int32_t sequences = 1;  // whose next tokens that step makes
  };

  /// The last `lead` (at least one) of `tokens` and at most `most` guesses behind them; empty if
  /// there is no guess that is likely to pay. `forced`, if there are any, are the first of them.
  /// Valid until the next call.
  std::span<const TokenId> guess(std::span<const TokenId> tokens, std::size_t lead,
                                 std::int64_t most, Price price,
                                 std::span<const TokenId> forced = {});
  /// Of `guessed` tokens the first `right` were picked.
  void learn(std::int32_t guessed, std::int32_t right);
  /// For another sequence.
  void restart();

 private:
  /// Of places, by how many tokens are the same; the last one is that of forced tokens.
  static constexpr std::size_t kGrades = 8;
  struct Record {
    double right = 0, tried = 0;  // the latest count most
  };
  static std::size_t grade_of(std::size_t same);
  double likelihood() const;
  std::int64_t length_for(std::int64_t most, Price price) const;

  std::array<Record, kGrades> records_;
  std::size_t grade_ = 0;  // of the last place
  std::vector<TokenId> buffer_;
  std::vector<TokenId> text_;  // tokens and forced ones
};

}  // namespace holdfast::engine
