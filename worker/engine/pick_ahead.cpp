// Tokens of several sequences picked at once by the executor's threads, before the step goes over
// the sequences one by one: each takes a few passes over its row, on one thread, while the others
// would wait.

#include <atomic>

#include "worker/engine/model_engine.h"

namespace holdfast::engine {

/// Whether the row behind the segment's tokens is picked from as it is, by nothing but what its
/// slot says now: no grammar, no list of banned texts, no state that a pick moves on.
bool ModelEngine::picks_plainly(const Planned& planned) {
  const Slot& s = *planned.slot;
  const backend::Segment& segment = planned.segment;
  const bool whole = s.pending() == segment.n - planned.drafts;  // nothing is left to be computed
  return whole && segment.n_logits > 0 && !segment.best && segment.top == 0 && !planned.scores &&
         !s.scores && !s.probe && !s.pooler && !s.matcher && !s.banned && !is_bound(s) &&
         s.replayed_n == s.replayed.size() && !s.extra.needs_chain();
}

void ModelEngine::pick_ahead(const float* rows) {
  if (more_samplers_.empty()) return;
  ahead_.clear();
  std::int32_t row = 0;
  for (Planned& planned : planned_) {
    if (picks_plainly(planned)) {
      planned.picked_from = row_at(rows, row);
      ahead_.push_back(&planned);
    }
    row += planned.segment.n_logits;
  }
  std::atomic<std::size_t> next{0};
  const auto pick = [&](int worker) {
    const auto at = static_cast<std::size_t>(worker);
    if (at > more_samplers_.size()) return;
    Sampler& sampler = at == 0 ? sampler_ : more_samplers_[at - 1];
    for (std::size_t i = next++; i < ahead_.size(); i = next++) {
      SampleInput in;
      plain_input(*ahead_[i]->slot, in);
      ahead_[i]->picked = sampler.pick(ahead_[i]->picked_from, in);
    }
  };
  ahead_.size() < 2 ? pick(0) : executor_->on_workers(pick);
}

}  // namespace holdfast::engine
