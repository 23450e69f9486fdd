#pragma once
// Tokens on their way from the sampler to a client. Every message, row and effect that carries
// tokens of a choice derives from TokenRun, and adds what its own receiver must know.

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::domain {

using TokenId = std::int32_t;

/// The token that carries an embedding's vector (shared/wire/vector_text.h). No vocabulary has it:
/// its bytes are empty.
inline constexpr TokenId kVectorToken = -1;
/// The token that carries a prompt's log-probabilities (shared/wire/prompt_scores.h) where no token
/// was requested.
inline constexpr TokenId kScoresToken = -2;

/// The tokens [start, start + ids.size()) of one choice.
struct TokenRun {
  std::int64_t start = 0;  // index of ids[0] among the choice's generated tokens
  std::vector<TokenId> ids;
  std::vector<std::string> extra;  // per token (log-probabilities as JSON); empty if none has any
};

}  // namespace holdfast::domain
