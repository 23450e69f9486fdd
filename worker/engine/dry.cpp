#include "worker/engine/dry.h"

#include <algorithm>

#include "worker/model/exact_math.h"

namespace holdfast::engine {
namespace {

constexpr std::int32_t kLengthMax = 64;  // base^64 is out of any logit's reach

/// The last n tokens; all of them if n is negative.
std::span<const TokenId> last_of(std::span<const TokenId> tokens, std::int64_t n) {
  const bool some = n >= 0 && tokens.size() > static_cast<std::size_t>(n);
  return some ? tokens.last(static_cast<std::size_t>(n)) : tokens;
}

}  // namespace

std::vector<TokenId> breaker_tokens(const grammar::TokenTable& table,
                                    const std::vector<std::string>& breakers) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < table.size(); ++id) {
    const std::string_view bytes = table.bytes(id);
    if (std::any_of(breakers.begin(), breakers.end(), [&](const std::string& breaker) {
          return bytes.find(breaker) != std::string_view::npos;
        })) {
      ids.push_back(id);
    }
  }
  return ids;
}

void Dry::penalise(std::span<const TokenId> all, const sampling::SamplingExtra& extra,
                   std::span<const TokenId> breakers, std::span<float> logits) {
  const std::span<const TokenId> tokens = last_of(all, extra.dry_penalty_last_n);
  const auto n = static_cast<std::int32_t>(tokens.size());
  const auto from_end = [&](std::int32_t i) { return tokens[static_cast<std::size_t>(n - 1 - i)]; };
  std::int32_t reach = 0;  // tokens after the last breaker
  while (reach < n && reach < kLengthMax + extra.dry_allowed_length &&
         !std::binary_search(breakers.begin(), breakers.end(), from_end(reach))) {
    ++reach;
  }
  const auto allowed =
      static_cast<std::int32_t>(std::clamp<std::int64_t>(extra.dry_allowed_length, 1, n + 1));
  if (reach < allowed) return;
  // common_[i]: how many tokens before position i from the end equal the last ones.
  common_.assign(static_cast<std::size_t>(n), 0);
  const auto z = [&](std::int32_t i) -> std::int32_t& {
    return common_[static_cast<std::size_t>(i)];
  };
  longest_.clear();
  for (std::int32_t i = 1, left = 0, right = 0; i < n; ++i) {
    if (i < right) z(i) = std::min(right - i, z(i - left));
    while (i + z(i) < n && from_end(z(i)) == from_end(i + z(i))) ++z(i);
    if (i + z(i) > right) {
      left = i;
      right = i + z(i);
    }
    const std::int32_t m = std::min(z(i), reach);
    if (m >= allowed) longest_.emplace_back(from_end(i - 1), m);
  }
  std::sort(longest_.begin(), longest_.end(), [](const auto& a, const auto& b) {
    return a.first < b.first || (a.first == b.first && a.second > b.second);
  });
  TokenId done = -1;
  for (const auto& [id, m] : longest_) {
    if (id == done) continue;
    done = id;
    const auto more =
        static_cast<double>(std::min<std::int64_t>(m - extra.dry_allowed_length, kLengthMax));
    logits[static_cast<std::size_t>(id)] -=
        static_cast<float>(static_cast<double>(extra.dry_multiplier) *
                           model::exact_pow(static_cast<double>(extra.dry_base), more));
  }
}

}  // namespace holdfast::engine
