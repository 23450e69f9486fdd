// Log-probabilities of the prompt: the part of ModelEngine that collects what each row of a
// prompt's prefill says of the next token, until the first token goes out with them.

#include <algorithm>

#include "worker/engine/model_engine.h"
#include "worker/engine/row_passes.h"

namespace holdfast::engine {

void ModelEngine::want_scores(Slot& slot) {
  slot.scores = std::make_unique<wire::PromptScores>();
  slot.scores->top = std::min(slot.sampling.prompt_logprobs, config_.vocab);
  const auto n = static_cast<std::size_t>(slot.prompt_n - 1);
  slot.scores->scores.reserve(n);
  slot.scores->alternatives.reserve(n * static_cast<std::size_t>(slot.scores->top));
}

/// Requests the row after each token of the segment, in slices of as many as there are logit rows:
/// each predicts the next token of the prompt, the last one is sampled from. What was scored before
/// the pages were given back is not requested again.
void ModelEngine::advance_scores(Slot& slot, const backend::Segment& segment, std::int32_t first) {
  const bool samples = slot.pending() == 0 && slot.generated_max > 0;
  const std::int64_t end = samples ? slot.computed : std::min(slot.computed, slot.prompt_n - 1);
  CHECK(segment.start <= slot.scored());
  for (std::int64_t p = slot.scored(); p < end;) {
    const auto n = static_cast<std::int32_t>(std::min<std::int64_t>(end - p, config_.logit_rows));
    const auto rows =
        executor_->compute_deferred_logits(first + static_cast<std::int32_t>(p - segment.start), n);
    if (!rows.has_value()) {
      return rows.error().code == Errc::kModelFailed ? lose_device(rows.error())
                                                     : fail(slot, rows.error());
    }
    for (const std::int64_t from = p; p < from + n; ++p) {
      if (!take_row(slot, p, row_at(*rows, static_cast<std::int32_t>(p - from)))) return;
    }
  }
  if (slot.pending() == 0 && !samples) give_scores(slot);
}

/// Scores the row after the token at `position`. False: the sequence has ended, or failed.
bool ModelEngine::take_row(Slot& slot, std::int64_t position, const LogitRow& row) {
  if (position == slot.prompt_n - 1) {
    sample(slot, row);
    return false;
  }
  if (row.maxima == nullptr && !all_finite(row.at, config_.vocab)) {
    fail(slot, {Errc::kNumericsNan, "score the prompt: a logit behind its token " +
                                        std::to_string(position) + " is not finite"});
    return false;
  }
  sampler_.score(row, slot.tokens[static_cast<std::size_t>(position + 1)], *slot.scores);
  return true;
}

std::string ModelEngine::scores_into(Slot& slot, std::string extra) {
  const std::unique_ptr<wire::PromptScores> scores = std::move(slot.scores);
  scores->ids.assign(slot.tokens.begin(), slot.tokens.begin() + slot.prompt_n);
  return wire::with_prompt_scores(std::move(extra), *scores);
}

/// Reports the scores alone, where no token is requested after them.
void ModelEngine::give_scores(Slot& slot) {
  Produced p;
  p.key = slot.key;
  p.ids.push_back(wire::kScoresToken);
  p.extra.push_back(scores_into(slot, ""));
  p.finish = wire::FinishReason::kLength;
  produced_.push_back(std::move(p));
  release(slot);
}

}  // namespace holdfast::engine
