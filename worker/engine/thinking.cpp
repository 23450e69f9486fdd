#include "worker/engine/thinking.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace holdfast::engine {

using sampling::TokenId;

Result<ThinkingBound> ThinkingBound::make(const sampling::ThinkingBudget& budget,
                                          const text::Tokenizer& tokenizer) {
  HOLDFAST_TRY(std::vector<TokenId> end,
               tokenizer.encode(budget.marks.force, {.add_special = false, .parse_special = true}));
  const bool ends =
      std::any_of(end.begin(), end.end(), [&](TokenId id) { return tokenizer.is_end(id); });
  if (end.empty() || ends) {
    return Error{Errc::kUnsupported, "thinking budget: this model cannot write \"" +
                                         budget.marks.force + "\" within an answer"};
  }
  return ThinkingBound(budget, tokenizer, std::move(end));
}

ThinkingBound::ThinkingBound(const sampling::ThinkingBudget& budget,
                             const text::Tokenizer& tokenizer, std::vector<TokenId> end)
    : tokenizer_(&tokenizer),
      tokens_(budget.tokens),
      end_(std::move(end)),
      meter_(budget.marks, budget.open) {}

void ThinkingBound::feed(TokenId id) {
  const bool forced = id == this->forced();
  written_ = forced ? (written_ + 1) % end_.size() : 0;
  meter_.feed(tokenizer_->token_bytes(id, /*special=*/true));
}

TokenId ThinkingBound::forced() const {
  return written_ > 0 || due() ? end_[written_] : -1;
}

std::int64_t ThinkingBound::free_tokens() const {
  if (written_ > 0) return 0;
  if (meter_.over()) return INT64_MAX;
  // Outside the reasoning a token for the mark comes first.
  return meter_.inside() ? std::max<std::int64_t>(0, tokens_ - meter_.tokens()) : tokens_ + 1;
}

}  // namespace holdfast::engine
