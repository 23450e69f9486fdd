// Parallel sampling: the executor's threads sample the tokens of several sequences at once, before
// the step goes over the sequences one by one. Each token takes a few passes over its row, on one
// thread, while the others would wait.

#include <atomic>

#include "worker/engine/sequence_sampler.h"

namespace holdfast::engine {

/// True if the row after the segment's tokens is sampled as it is, by nothing but what its slot
/// says now: no grammar, no list of banned texts, no state that a sampled token moves on.
bool SequenceSampler::can_sample_in_parallel(const Planned& planned) {
  const Slot& s = *planned.slot;
  const backend::Segment& segment = planned.segment;
  const bool whole = s.pending() == segment.n - planned.drafts;  // nothing is left to be computed
  const bool has_row =
      segment.wants.logit_rows() > 0 && segment.wants.top_count() == backend::Wants::kWholeRow;
  return whole && has_row && s.probe.is_none() && s.sampling.is_unconstrained() &&
         !s.sampling.extra.needs_sampler_chain();
}

void SequenceSampler::sample_in_parallel(std::span<Planned> planned,
                                         const backend::StepResult& result) {
  if (worker_samplers_.empty()) return;
  sampled_in_parallel_.clear();
  std::int32_t row = 0;
  for (Planned& one : planned) {
    if (can_sample_in_parallel(one)) {
      one.sampled_from = result.logits(row);
      sampled_in_parallel_.push_back(&one);
    }
    row += one.segment.wants.logit_rows();
  }
  std::atomic<std::size_t> next{0};
  const auto work = [&](int worker) {
    const auto at = static_cast<std::size_t>(worker);
    if (at > worker_samplers_.size()) return;
    Sampler& sampler = at == 0 ? sampler_ : worker_samplers_[at - 1];
    for (std::size_t i = next++; i < sampled_in_parallel_.size(); i = next++) {
      SampleInput in;
      plain_input(*sampled_in_parallel_[i]->slot, in);
      sampled_in_parallel_[i]->sampled = sampler.sample(sampled_in_parallel_[i]->sampled_from, in);
    }
  };
  sampled_in_parallel_.size() < 2 ? work(0) : executor_.on_workers(work);
}

}  // namespace holdfast::engine
