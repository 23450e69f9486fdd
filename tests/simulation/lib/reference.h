#pragma once
// The model's answers: each token is a hash of seed, choice, prompt, variant and all tokens before
// it, as the numerics contract promises. Workers compute it step by step, the auditor has it as a
// whole. The variant is the numerics class, and the model where a request may get one of several.

#include <cstdint>
#include <string>
#include <vector>

#include "shared/wire/messages.h"

namespace holdfast::simulation {

class Stream {
 public:
  Stream(std::uint64_t seed, std::int32_t choice, const std::vector<wire::TokenId>& prompt,
         const std::string& variant);
  /// The next token; the state moves to after it.
  wire::TokenId next();
  /// Moves to after this token, whatever it is.
  void take(wire::TokenId id);
  /// True if the last token was an end token.
  bool ended() const { return state_ % 61 == 0; }

 private:
  std::uint64_t state_;
};

/// The whole answer: at most `max_tokens`, less if it ends by itself.
struct Answer {
  std::vector<wire::TokenId> ids;
  wire::FinishReason finish = wire::FinishReason::kLength;
};
Answer reference_answer(std::uint64_t seed, std::int32_t choice,
                        const std::vector<wire::TokenId>& prompt, const std::string& variant,
                        std::int64_t max_tokens);

/// The scores of the prompt's own tokens, which come with the first token.
std::string reference_scores(const std::vector<wire::TokenId>& prompt);

}  // namespace holdfast::simulation
