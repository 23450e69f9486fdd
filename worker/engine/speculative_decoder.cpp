#include "worker/engine/speculative_decoder.h"

#include <algorithm>
#include <span>
#include <utility>

#include "shared/plan/plan.h"

namespace holdfast::engine {

SpeculativeDecoder::SpeculativeDecoder(const ModelEngineConfig& config, SequencePages& pages,
                                       SequenceSampler& sampler, StepResults& results)
    : config_(config), pages_(pages), sampler_(sampler), results_(results) {
  if (!config.recurrent) return;
  spare_before_ = config.slots + plan::snapshot_states_of(config.slots);
  spare_after_ = spare_before_ + 1;
}

/// The most draft tokens that may follow what is planned for a sequence that decodes, in pages that
/// it has.
std::int64_t SpeculativeDecoder::most(const Planned& planned, const StepBudget& budget) const {
  const Slot& slot = *planned.slot;
  if (!slot.probe.is_none() || slot.sampling.replays()) return 0;
  const std::int64_t free_positions =
      std::min<std::int64_t>(
          static_cast<std::int64_t>(slot.prefix.pages.size()) * plan::kPageTokens,
          slot.prompt_n + slot.generated_max) -
      slot.length();
  const std::int64_t most =
      std::min<std::int64_t>({budget.drafts, budget.rows, budget.tokens, free_positions});
  if (!config_.recurrent) return most;
  // The cache may want the state after a page, so a draft passes no page's end.
  return std::min(most, plan::kPageTokens - 1 - slot.length() % plan::kPageTokens);
}

void SpeculativeDecoder::add(Planned& planned, StepBudget& budget, Drafter::Price price) {
  Slot& slot = *planned.slot;
  backend::Segment& s = planned.segment;
  const std::int64_t at_most = most(planned, budget);
  if (at_most <= 0) return;
  forced_.clear();
  if (slot.sampling.matcher) forced_tokens(*slot.sampling.matcher, forced_);
  const std::span<const TokenId> drafted =
      slot.drafter.propose(slot.tokens, static_cast<std::size_t>(s.n), at_most, price, forced_);
  const auto drafts = static_cast<std::int32_t>(drafted.size()) - s.n;
  if (drafts <= 0) return;
  budget.drafts -= drafts;
  budget.tokens -= drafts;
  budget.rows -= drafts;
  budget.work.extra_rows[slot.prefill_heavy ? 1 : 0] += drafts;
  planned.drafts = drafts;
  if (config_.recurrent) {
    redirect_state(s);
    budget.drafts = 0;  // there is one pair of spare states
  }
  s.tokens = drafted.data();
  s.n += drafts;
  s.wants = s.wants.with_rows(1 + drafts);
}

/// Lets a segment leave the state before its draft and the one after it in the spare slots.
void SpeculativeDecoder::redirect_state(backend::Segment& s) const {
  CHECK(!s.states.snapshot);  // a full page has no position left for a draft
  s.states = {spare_after_, s.states.origin(), backend::StateSnapshot{s.n, spare_before_}};
}

bool SpeculativeDecoder::drop(StepPlan& plan) const {
  bool any = false;
  for (std::size_t i = 0; i < plan.planned.size(); ++i) {
    Planned& planned = plan.planned[i];
    if (planned.drafts == 0) continue;
    any = true;
    backend::Segment& s = planned.segment;
    s.n -= std::exchange(planned.drafts, 0);
    s.wants = s.wants.with_rows(1);
    if (config_.recurrent) s.states = {planned.slot->recurrent.at, planned.slot->prefix.from};
    plan.batch.segments[i] = s;
  }
  return any;
}

void SpeculativeDecoder::restore_state(const Planned& planned) {
  if (config_.recurrent && planned.drafts > 0) {
    std::swap(planned.slot->recurrent.at, spare_before_);
  }
}

void SpeculativeDecoder::verify(const Planned& planned, const backend::StepResult& result,
                                std::int32_t row) {
  Slot& slot = *planned.slot;
  const SequenceKey key = slot.key;
  const TokenId* draft_tokens = planned.segment.tokens + planned.segment.n - planned.drafts;
  std::int32_t accepted = 0;
  while (accepted < planned.drafts && slot.state == Slot::State::kRunning && slot.key == key &&
         slot.tokens.back() == draft_tokens[accepted]) {
    ++accepted;
    ++slot.computed;
    pages_.insert_prefix(slot);
    sampler_.sample_row(planned, result, row + accepted);
  }
  results_.usage().drafts += static_cast<std::uint64_t>(planned.drafts);
  results_.usage().drafts_accepted += static_cast<std::uint64_t>(accepted);
  if (slot.state != Slot::State::kRunning || slot.key != key) return;
  slot.drafter.learn(planned.drafts, accepted);
  if (!config_.recurrent) return;
  if (accepted == planned.drafts) {
    std::swap(slot.recurrent.at, spare_after_);
  } else {
    slot.recurrent.lag = accepted;
  }
}

}  // namespace holdfast::engine
