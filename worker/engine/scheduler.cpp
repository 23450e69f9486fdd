#include "worker/engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "shared/plan/plan.h"
#include "worker/engine/probe_runner.h"

namespace holdfast::engine {

Scheduler::Scheduler(const ModelEngineConfig& config, const SchedulerParts& parts)
    : config_(config),
      slots_(parts.slots),
      pages_(parts.pages),
      sampler_(parts.sampler),
      drafts_(parts.drafts),
      results_(parts.results),
      step_time_model_(config.gap_us) {
  const auto slots = static_cast<std::size_t>(config.slots);
  order_.reserve(slots);
  plan_.planned.reserve(slots);
  plan_.batch.segments.reserve(slots);
}

StepPlan& Scheduler::plan() {
  begin();
  bool may_admit = true;  // a sequence that waits for pages is not overtaken
  for (Slot* slot : order_) {
    if (slot->paused) continue;
    if (slot->state == Slot::State::kWaiting) {
      if (!may_admit || !may_begin(*slot)) continue;
      may_admit = admit(*slot);
      if (!may_admit) continue;
    }
    if (!plan_running(*slot)) preempt(*slot);
  }
  finish();
  return plan_;
}

/// Ranks the sequences and sets the step's budget.
void Scheduler::begin() {
  plan_.planned.clear();
  order_.clear();
  budget_.work = {};
  StepTimeModel::Work& work = budget_.work;
  for (Slot& slot : slots_.all()) {
    if (slot.state == Slot::State::kFree || slot.sampling.grammar != nullptr) continue;
    order_.push_back(&slot);
    if (slot.paused) continue;
    work.decoding[slot.prefill_heavy ? 1 : 0] +=
        slot.state == Slot::State::kRunning && slot.pending() == 1;
    work.in_prefill += slot.pending() > 1;
  }
  std::sort(order_.begin(), order_.end(),
            [](const Slot* a, const Slot* b) { return a->ranks_before(*b); });
  budget_.tokens = work.all_decoding() > 0 ? config_.prefill_chunk_busy : config_.prefill_chunk;
  // Each sequence may want one row; the rest goes to probes that request more.
  budget_.rows = config_.logit_rows - static_cast<std::int32_t>(order_.size());
  budget_.drafts =
      std::min({config_.drafts, plan::kDraftRows + 1 - work.all_decoding(), budget_.rows});
  if (pages_.caches_states()) mark_branches();
}

/// Puts prefill-heavy segments last, as a Batch has them.
void Scheduler::finish() {
  auto first_prefill_heavy = plan_.planned.begin();
  for (auto it = plan_.planned.begin(); it != plan_.planned.end(); ++it) {
    if (!it->segment.prefill_heavy) std::rotate(first_prefill_heavy++, it, it + 1);
  }
  std::vector<backend::Segment>& segments = plan_.batch.segments;
  segments.clear();
  for (const Planned& planned : plan_.planned) segments.push_back(planned.segment);
}

/// True if a waiting sequence may be admitted to this step.
bool Scheduler::may_begin(const Slot& slot) const {
  return budget_.tokens != 0 && step_time_model_.allow(budget_.work, slot.prefill_heavy, 1) != 0 &&
         !waits_for_prefix(slot);
}

/// False if the sequence needs a page and there is none, even from sequences that rank after it.
bool Scheduler::plan_running(Slot& slot) {
  // A lag above the budget that others leave counts as not computed.
  if (slot.recurrent.lag > budget_.tokens) {
    slot.computed -= std::exchange(slot.recurrent.lag, 0);
  }
  if (slot.pending() == 1) {
    if (!grow(slot, slot.length())) return false;
    add_segment(slot, 1);
    add_drafts(slot);
    return true;
  }
  plan_prefill(slot);
  return true;
}

void Scheduler::plan_prefill(Slot& slot) {
  CHECK(pages_for(slot.length()) <= static_cast<std::int32_t>(slot.prefix.pages.size()));
  std::int64_t n = std::min(slot.pending(), budget_.tokens);
  if (!slot.probe.request) {  // a probe has its own chunks
    n = step_time_model_.allow(budget_.work, slot.prefill_heavy, n);
  }
  if (pages_.caches_states()) n = SequencePages::to_second_mark(slot, n);
  // An encoder's text is computed at once; a whole step's budget is enough for any.
  if (n > 0 && (config_.causal || n == slot.pending())) add_segment(slot, n);
}

/// True if `other` has prompt left to compute whose pages `slot` could share.
bool Scheduler::prefills_for(const Slot& other, const Slot& slot) const {
  return other.pending() > 1 && pages_.shares_prefix(other) &&
         other.prefix.root == slot.prefix.root;
}

/// Pages that a waiting sequence could share with `other`, which goes before it.
std::int32_t Scheduler::shared_pages(const Slot& slot, const Slot& other) {
  return std::min(SequencePages::common_pages(slot, other), SequencePages::prefix_pages(slot));
}

/// True if a sequence that ranks before it is about to make pages that it could share.
bool Scheduler::waits_for_prefix(const Slot& slot) const {
  if (!pages_.shares_prefix(slot)) return false;
  for (const Slot* other : order_) {
    if (other == &slot) break;  // the others rank after it
    if (other->state != Slot::State::kRunning || other->paused) continue;
    if (!prefills_for(*other, slot)) continue;
    const std::int32_t shared = shared_pages(slot, *other);
    if (shared > other->prefix.cached_pages && pages_.reusable_pages(slot, shared) < shared) {
      return true;
    }
  }
  return false;
}

/// Marks where waiting sequences will leave the text of those that go before them.
void Scheduler::mark_branches() {
  for (std::size_t i = 1; i < order_.size(); ++i) {
    const Slot& slot = *order_[i];
    if (slot.state != Slot::State::kWaiting || !pages_.shares_prefix(slot)) continue;
    for (std::size_t k = 0; k < i; ++k) {
      if (!prefills_for(*order_[k], slot)) continue;
      const std::int32_t shared = shared_pages(slot, *order_[k]);
      if (pages_.reusable_pages(slot, shared) < shared) SequencePages::mark(*order_[k], shared);
    }
  }
}

/// True if the sequence may need more pages than it has. Its last token is not computed.
bool Scheduler::may_grow(const Slot& slot) {
  return pages_for(slot.prompt_n + slot.generated_max - 1) >
         static_cast<std::int32_t>(slot.prefix.pages.size());
}

/// Takes pages for all tokens of a waiting sequence at once, so that its prefill is never stuck
/// half-way.
bool Scheduler::admit(Slot& slot) {
  std::int32_t growing = 0;
  std::int32_t not_preemptible = 0;  // of those, the ones that would not give way to this one
  for (const Slot* other : order_) {
    if (other->state != Slot::State::kRunning || other->paused || !may_grow(*other)) continue;
    ++growing;
    not_preemptible += other->priority <= slot.priority;
  }
  // A spare page for each running sequence that may want one: it would preempt the newcomer.
  pages_.find_prefix(slot);
  const auto found = static_cast<std::int32_t>(slot.prefix.pages.size());
  const std::int32_t needed = pages_for(slot.length()) - found;
  const auto with_spare = [&](std::int32_t n) {
    return std::min(needed + n, pages_.total() - found);
  };
  if (pages_.available() < with_spare(growing) && !preempt_for(slot, with_spare(not_preemptible))) {
    pages_.give_back(slot);
    return false;
  }
  slot.state = Slot::State::kRunning;
  CHECK(grow(slot, slot.length()));
  if (config_.assume_prompts) slot.computed = slot.length() - 1;
  return true;
}

/// True if no sequence runs that is not paused.
bool Scheduler::is_nothing_running() const {
  return std::ranges::none_of(order_, [](const Slot* slot) {
    return slot->state == Slot::State::kRunning && !slot->paused;
  });
}

/// Preempts for a newcomer: sequences of a lower priority; if nothing else runs, paused ones too.
bool Scheduler::preempt_for(const Slot& slot, std::int32_t needed) {
  std::int32_t obtainable = pages_.available();
  const bool alone = is_nothing_running();
  const auto yields = [&](const Slot& other) {
    return other.state == Slot::State::kRunning &&
           (other.priority > slot.priority || (alone && other.paused));
  };
  for (const Slot* other : order_) {
    if (yields(*other)) obtainable += static_cast<std::int32_t>(other->prefix.pages.size());
  }
  if (obtainable < needed) return false;
  for (auto it = order_.rbegin(); it != order_.rend() && pages_.available() < needed; ++it) {
    if (yields(**it)) preempt(**it);
  }
  return pages_.available() >= needed;
}

/// The sequence that gives way to `slot`: the last one that ranks after it, else the last paused
/// one.
Slot* Scheduler::victim(const Slot& slot) {
  Slot* paused = nullptr;
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    Slot& other = **it;
    if (&other == &slot || other.state != Slot::State::kRunning) continue;
    if (slot.ranks_before(other)) return &other;
    if (other.paused && paused == nullptr) paused = &other;
  }
  return paused;
}

void Scheduler::preempt(Slot& slot) {
  pages_.give_back(slot);
  slot.state = Slot::State::kWaiting;
  ++results_.usage().preemptions;
}

bool Scheduler::grow(Slot& slot, std::int64_t positions) {
  while (static_cast<std::int32_t>(slot.prefix.pages.size()) < pages_for(positions)) {
    while (!pages_.take(slot)) {  // a victim may share its pages with others
      Slot* other = victim(slot);
      if (other == nullptr) return false;
      preempt(*other);
    }
  }
  return true;
}

/// Rows that the forward gives for the next n tokens of a sequence; n may become less. Rows of a
/// prompt that is scored are requested after the forward.
std::int32_t Scheduler::logit_row_count(const Slot& slot, std::int64_t& n) const {
  if (slot.probe.request) return ProbeRunner::row_count(slot, n, budget_.rows);
  if (slot.probe.pooler || slot.probe.scores) return 0;
  return slot.computed + n == slot.length() ? 1 : 0;
}

/// The results of a segment with `rows` rows of logits.
backend::Wants Scheduler::wants(const Slot& slot, const backend::Segment& s,
                                std::int32_t rows) const {
  if (slot.probe.scores) return backend::Wants::deferred_logits();
  if (!slot.probe.pooler) return sampler_.wants(slot, rows);
  return slot.probe.pooler->wants(s.start, s.n, s.start + s.n == slot.length());
}

void Scheduler::add_segment(Slot& slot, std::int64_t n) {
  const std::int32_t lag = slot.recurrent.lag;
  const bool decode = slot.pending() == 1;
  backend::Segment s;
  s.prefill_heavy = slot.prefill_heavy;
  s.states = {slot.recurrent.at, slot.prefix.from};
  const std::int32_t rows = logit_row_count(slot, n);
  budget_.rows -= std::max(rows - 1, 0);
  if (!decode) {
    budget_.tokens -= n;
    budget_.work.prompt[slot.prefill_heavy ? 1 : 0] += n;
  }
  budget_.tokens -= lag;
  budget_.drafts -= lag;
  budget_.work.extra_rows[slot.prefill_heavy ? 1 : 0] += lag;
  s.start = slot.computed - lag;
  s.tokens = slot.tokens.data() + s.start;
  s.n = lag + static_cast<std::int32_t>(n);
  s.pages = slot.prefix.pages.data();
  s.wants = wants(slot, s, rows);
  plan_.planned.push_back({&slot, s});
  pages_.plan_snapshot(plan_.planned.back());
}

/// Adds draft tokens after the last token of a sequence that decodes.
void Scheduler::add_drafts(Slot& slot) {
  const Drafter::Price price = {step_time_model_.row_share(slot.prefill_heavy),
                                budget_.work.all_decoding()};
  drafts_.add(plan_.planned.back(), budget_, price);
}

}  // namespace holdfast::engine
