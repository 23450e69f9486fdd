#pragma once
// "Don't repeat yourself" (p-e-w 2024): a token that would lengthen a repetition of what was said
// before is made less likely, the more the longer the repetition is already.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shared/grammar/token_table.h"
#include "shared/sampling/extra.h"

namespace holdfast::engine {

using TokenId = std::int32_t;

/// Ids of the tokens whose text contains one of the breakers: no repetition goes over them. Sorted.
std::vector<TokenId> breaker_tokens(const grammar::TokenTable& table,
                                    const std::vector<std::string>& breakers);

/// The DRY penalty. Not thread-safe; reuses its memory between calls.
class Dry {
 public:
  /// Lowers `logits` [vocab]; `tokens`: prompt, then generated. For each earlier position whose
  /// last m tokens are the last m of all (m at most up to the last breaker), with m >=
  /// allowed_length, the token that followed there loses multiplier x base^(m - allowed_length),
  /// for its longest m. Cost: linear in the tokens looked back at.
  void penalise(std::span<const TokenId> tokens, const sampling::SamplingExtra& extra,
                std::span<const TokenId> breakers, std::span<float> logits);

 private:
  std::vector<std::int32_t> common_;                       // Z-function of the reversed tokens
  std::vector<std::pair<TokenId, std::int32_t>> longest_;  // token, m
};

}  // namespace holdfast::engine
