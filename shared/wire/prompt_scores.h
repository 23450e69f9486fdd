#pragma once
// The log-probabilities of a prompt's tokens on their way: part of the `extra` of the first token
// behind the prompt (kScoresToken if none is wanted), so that everything that holds for tokens
// holds for them.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/wire/messages.h"

namespace holdfast::wire {

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
  struct Piece {
    std::string bytes;     // what the token stands for, a control token by its name
    bool control = false;  // not made of text
    bool operator==(const Piece&) const = default;
  };

  std::int32_t top = 0;                   // alternatives of each token
  std::vector<TokenId> ids;               // [prompt]
  std::vector<Score> scores;              // [prompt - 1]: nothing foretells the first token
  std::vector<Alternative> alternatives;  // [prompt - 1][top], most likely first
  std::map<TokenId, Piece> pieces;        // of every id above, added by the daemon

  /// What foretells ids[at]; at > 0.
  const Alternative* top_of(std::size_t at) const {
    return alternatives.data() + (at - 1) * static_cast<std::size_t>(top);
  }
  bool operator==(const PromptScores&) const = default;
};

/// `extra` (a JSON object, or empty) with the scores as its last member, "prompt": base64 of
/// little-endian u32 tokens, u32 top, i32 ids[tokens], then for each token but the first f32
/// logprob, u32 rank, top x (i32 id, f32 logprob). The pieces follow as "pieces": base64 of
/// (i32 id, u32 2 x size + control, bytes)…; left out if there are none.
std::string with_prompt_scores(std::string extra, const PromptScores& scores);
/// nullopt: there are none in it, or what is there is damaged.
std::optional<PromptScores> read_prompt_scores(std::string_view extra);
/// Takes the scores out: leaves what `extra` was before with_prompt_scores ("{}" for empty).
std::optional<PromptScores> take_prompt_scores(std::string& extra);

}  // namespace holdfast::wire
