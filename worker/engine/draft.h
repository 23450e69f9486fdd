#pragma once
// Guesses of the next tokens of a sequence from what it has said before (prompt lookup): where its
// last tokens came before, what followed them there is likely to follow again. No model is asked.
// After https://github.com/apoorvumang/prompt-lookup-decoding.

#include <cstdint>
#include <span>
#include <vector>

namespace holdfast::engine {

/// One sequence's. Guesses more while it is right, fewer and more seldom while it is wrong. What it
/// guesses changes how long a token takes and nothing else. Not thread-safe.
class Drafter {
 public:
  using TokenId = std::int32_t;

  /// The last `lead` (at least one) of `tokens` and at most `most` guesses behind them; empty if
  /// there is no guess now. Valid until the next call.
  std::span<const TokenId> guess(std::span<const TokenId> tokens, std::size_t lead,
                                 std::int64_t most);
  /// Of `guessed` tokens the first `right` were picked.
  void learn(std::int32_t guessed, std::int32_t right);
  /// For another sequence.
  void restart();

 private:
  static constexpr std::int32_t kShort = 1, kLong = 7;
  std::int32_t length_ = 3;  // of the next guess
  std::int32_t misses_ = 0;  // guesses in a row of which nothing was right
  std::int32_t quiet_ = 0;   // calls that still go without a guess
  std::vector<TokenId> buffer_;
};

}  // namespace holdfast::engine
