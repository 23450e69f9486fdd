#pragma once
// Carries the log-probabilities of a prompt's tokens: part of the `extra` of the first token after
// the prompt (kScoresToken if none is requested), so that all guarantees for tokens hold for them.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/wire/messages.h"

namespace holdfast::wire {

/// The log-probabilities of one prompt.
struct PromptScores {
  struct Alternative {
    TokenId id = 0;
    float logprob = 0;
    bool operator==(const Alternative&) const = default;
  };
  struct Score {
    float logprob = 0;
    std::int32_t rank = 0;  // 1 = the most likely token
    bool operator==(const Score&) const = default;
  };
  struct TokenBytes {
    std::string bytes;     // the token's bytes, a control token's name
    bool control = false;  // a control token
    bool operator==(const TokenBytes&) const = default;
  };

  std::int32_t top = 0;                       // alternatives of each token
  std::vector<TokenId> ids;                   // [prompt]
  std::vector<Score> scores;                  // [prompt - 1]: nothing predicts the first token
  std::vector<Alternative> alternatives;      // [prompt - 1][top], most likely first
  std::map<TokenId, TokenBytes> token_bytes;  // of every id above, added by the daemon

  /// Returns the prediction of ids[at]; at > 0.
  const Alternative* top_of(std::size_t at) const {
    return alternatives.data() + (at - 1) * static_cast<std::size_t>(top);
  }
  bool operator==(const PromptScores&) const = default;
};

/// Returns `extra` (a JSON object, or empty) with the scores as its last member, "prompt": base64
/// of little-endian u32 tokens, u32 top, i32 ids[tokens], then for each token but the first f32
/// logprob, u32 rank, top x (i32 id, f32 logprob). The token bytes follow as "pieces": base64 of
/// (i32 id, u32 2 x size + control, bytes)…; left out if there are none.
std::string with_prompt_scores(std::string extra, const PromptScores& scores);
/// Returns nullopt if there are no scores in it, or they are damaged.
std::optional<PromptScores> read_prompt_scores(std::string_view extra);
/// Takes the scores out: leaves `extra` as it was before with_prompt_scores ("{}" for empty).
std::optional<PromptScores> take_prompt_scores(std::string& extra);

}  // namespace holdfast::wire
