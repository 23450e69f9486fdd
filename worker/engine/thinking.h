#pragma once
// A bound on how long a model may reason: after so many tokens nothing but the end of the reasoning
// may come. A function of the tokens alone, so a choice that is resumed elsewhere ends its
// reasoning at the same token.

#include <cstdint>
#include <vector>

#include "shared/base/result.h"
#include "shared/chat/thinking.h"
#include "shared/sampling/extra.h"
#include "shared/text/tokenizer.h"

namespace holdfast::engine {

/// The thinking budget of one sequence. Not thread-safe. The tokenizer outlives it.
class ThinkingBound {
 public:
  /// kUnsupported: the vocabulary has no way to write the end, or it would end the answer.
  static Result<ThinkingBound> make(const sampling::ThinkingBudget& budget,
                                    const text::Tokenizer& tokenizer);
  /// Takes the next token of the answer, sampled or forced.
  void feed(sampling::TokenId id);
  /// The token that has to come next; -1: any may.
  sampling::TokenId forced() const;
  /// Returns how many tokens can be sampled before one is forced, at least.
  std::int64_t free_tokens() const;

 private:
  ThinkingBound(const sampling::ThinkingBudget& budget, const text::Tokenizer& tokenizer,
                std::vector<sampling::TokenId> end);
  bool due() const { return meter_.inside() && meter_.tokens() >= tokens_; }

  const text::Tokenizer* tokenizer_;
  std::int64_t tokens_;
  std::vector<sampling::TokenId> end_;
  std::size_t written_ = 0;  // tokens of end_
  chat::ThinkingMeter meter_;
};

}  // namespace holdfast::engine
