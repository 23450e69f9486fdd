// Log-probabilities of the prompt: the part of ModelEngine that keeps what each row of a prompt's
// prefill says of the token behind it, until the first token goes out with them.

#include <algorithm>

#include "worker/engine/model_engine.h"

namespace holdfast::engine {

void ModelEngine::want_scores(Slot& slot) {
  slot.scores = std::make_unique<wire::PromptScores>();
  slot.scores->top = std::min(slot.sampling.prompt_logprobs, config_.vocab);
  const auto n = static_cast<std::size_t>(slot.prompt_n - 1);
  slot.scores->scores.reserve(n);
  slot.scores->alternatives.reserve(n * static_cast<std::size_t>(slot.scores->top));
}

/// `rows` are those behind the last tokens of the segment; what was scored before its pages were
/// given back is not among them. False: the sequence has failed.
bool ModelEngine::take_scores(Slot& slot, const backend::Segment& segment, const float* rows) {
  const std::int64_t first = slot.computed - segment.n_logits;
  const std::int64_t last = std::min(slot.computed, slot.prompt_n - 1);
  for (std::int64_t p = first; p < last; ++p, rows += config_.vocab) {
    CHECK(p == slot.scored());
    if (!all_finite(rows, config_.vocab)) {
      fail(slot, {Errc::kNumericsNan, "score the prompt: a logit behind its token " +
                                          std::to_string(p) + " is not finite"});
      return false;
    }
    sampler_.score(rows, slot.tokens[static_cast<std::size_t>(p + 1)], *slot.scores);
  }
  return true;
}

std::string ModelEngine::scores_into(Slot& slot, std::string extra) {
  const std::unique_ptr<wire::PromptScores> scores = std::move(slot.scores);
  scores->ids.assign(slot.tokens.begin(), slot.tokens.begin() + slot.prompt_n);
  return wire::with_prompt_scores(std::move(extra), *scores);
}

/// Where no token is wanted behind them.
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
