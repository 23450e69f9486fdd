// Log-probabilities of the prompt: the part of ProbeRunner that collects what each row of a
// prompt's prefill says of the next token, until the first token goes out with them.

#include <algorithm>
#include <utility>

#include "worker/engine/probe_runner.h"
#include "worker/engine/row_passes.h"

namespace holdfast::engine {

void ProbeRunner::request_scores(Slot& slot, std::int32_t top) const {
  slot.probe.scores = std::make_unique<wire::PromptScores>();
  wire::PromptScores& scores = *slot.probe.scores;
  scores.top = std::min(top, config_.vocab);
  const auto n = static_cast<std::size_t>(slot.prompt_n - 1);
  scores.scores.reserve(n);
  scores.alternatives.reserve(n * static_cast<std::size_t>(scores.top));
}

Result<void> ProbeRunner::advance_scores(Slot& slot, const backend::Segment& segment,
                                         std::int32_t first) {
  const bool samples = slot.pending() == 0 && slot.generated_max > 0;
  const std::int64_t end = samples ? slot.computed : std::min(slot.computed, slot.prompt_n - 1);
  CHECK(segment.start <= slot.probe.scored());
  for (std::int64_t p = slot.probe.scored(); p < end;) {
    const auto n = static_cast<std::int32_t>(std::min<std::int64_t>(end - p, config_.logit_rows));
    HOLDFAST_TRY(
        const backend::StepResult rows,
        executor_.compute_deferred_logits(first + static_cast<std::int32_t>(p - segment.start), n));
    for (const std::int64_t from = p; p < from + n; ++p) {
      if (!take_row(slot, p, rows.logits(static_cast<std::int32_t>(p - from)))) return {};
    }
  }
  if (slot.pending() == 0 && !samples) report_scores(slot);
  return {};
}

/// Scores the row after the token at `position`. False: the sequence has ended, or failed.
bool ProbeRunner::take_row(Slot& slot, std::int64_t position, const LogitRow& row) {
  if (position == slot.prompt_n - 1) {
    sampler_.sample(slot, row);
    return false;
  }
  if (row.maxima == nullptr && !all_finite(row.at, config_.vocab)) {
    results_.fail(slot, {Errc::kNumericsNan, "score the prompt: a logit behind its token " +
                                                 std::to_string(position) + " is not finite"});
    return false;
  }
  sampler_.sampler().score(row, slot.tokens[static_cast<std::size_t>(position + 1)],
                           *slot.probe.scores);
  return true;
}

/// Reports the scores alone, where no token is requested after them.
void ProbeRunner::report_scores(Slot& slot) {
  Produced p;
  p.key = slot.key;
  p.ids.push_back(wire::kScoresToken);
  p.extra.push_back(slot.probe.take_scores(slot.prompt(), ""));
  p.finish = wire::FinishReason::kLength;
  results_.end(slot, std::move(p));
}

}  // namespace holdfast::engine
