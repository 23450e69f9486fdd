#pragma once
// A bound on how long a model may reason: behind so many tokens the end of it is the only thing
// that may come. A function of the tokens alone, so a choice that is taken up elsewhere ends its
// reasoning at the same token.

#include <cstdint>
#include <vector>

#include "shared/base/result.h"
#include "shared/chat/thinking.h"
#include "shared/sampling/extra.h"
#include "shared/text/tokenizer.h"

namespace holdfast::engine {

/// Not thread-safe. The tokenizer outlives it.
class ThinkingBound {
 public:
  /// kUnsupported: the vocabulary has no way to write the end, or it would end the answer.
  static Result<ThinkingBound> make(const sampling::ThinkingBudget& budget,
                                    const text::Tokenizer& tokenizer);
  /// The next token of the answer, whoever picked it.
  void feed(sampling::TokenId id);
  /// The token that has to come next; -1: any may.
  sampling::TokenId forced() const;
  /// So many tokens can be picked before one is forced, at least.
  std::int64_t free_tokens() const;

 private:
  ThinkingBound(const sampling::ThinkingBudget& budget, const text::Tokenizer& tokenizer,
                std::vector<sampling::TokenId> end);
  bool due() const { return meter_.inside() && meter_.tokens() >= tokens_; }

  const text::Tokenizer* tokenizer_;
  std::int64_t tokens_;
  std::vector<sampling::TokenId> end_;
  std::size_t written_ = 0;  // of end_
  chat::ThinkingMeter meter_;
};

}  // namespace holdfast::engine
