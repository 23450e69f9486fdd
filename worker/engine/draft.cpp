#include "worker/engine/draft.h"

#include <algorithm>

namespace holdfast::engine {

namespace {

constexpr std::size_t kMatch = 3;  // tokens that must have come before
constexpr std::int32_t kQuietMax = 64;

/// Where the latest earlier place of the last kMatch tokens ends; 0 if there is none.
std::size_t earlier_place(std::span<const std::int32_t> tokens) {
  if (tokens.size() <= kMatch) return 0;
  const auto last = tokens.last(kMatch);
  for (std::size_t end = tokens.size() - 1; end >= kMatch; --end) {
    if (tokens[end - 1] != last[kMatch - 1]) continue;
    if (std::ranges::equal(tokens.subspan(end - kMatch, kMatch), last)) return end;
  }
  return 0;
}

}  // namespace

std::span<const Drafter::TokenId> Drafter::guess(std::span<const TokenId> tokens, std::size_t lead,
                                                 std::int64_t most) {
  if (quiet_ > 0) {
    --quiet_;
    return {};
  }
  const std::size_t from = earlier_place(tokens);
  if (from == 0 || most <= 0) return {};
  const auto n = static_cast<std::size_t>(std::min<std::int64_t>(most, length_));
  const auto last = tokens.last(lead);
  buffer_.assign(last.begin(), last.end());
  for (std::size_t i = 0; i < n; ++i) {
    // Behind the end the guesses themselves go on: a text may turn in a circle.
    const std::size_t at = from + i;
    buffer_.push_back(at < tokens.size() ? tokens[at] : buffer_[at - tokens.size() + lead]);
  }
  return buffer_;
}

void Drafter::learn(std::int32_t guessed, std::int32_t right) {
  if (right == 0) {
    length_ = kShort;
    quiet_ = std::min(kQuietMax, 1 << std::min(misses_++, 6));
    return;
  }
  misses_ = 0;
  // 1, 3 and 7 guesses are 2, 4 and 8 rows, which the kernels take in whole tiles.
  length_ = right == guessed ? std::min(kLong, 2 * length_ + 1) : std::max(kShort, length_ / 2);
}

void Drafter::restart() {
  length_ = 3;
  misses_ = quiet_ = 0;
}

}  // namespace holdfast::engine
