// What the next step computes: the part of ModelEngine that hands out pages and budget.

#include <algorithm>

#include "worker/engine/model_engine.h"

namespace holdfast::engine {

bool ModelEngine::ranks_before(const Slot& a, const Slot& b) const {
  return a.priority != b.priority ? a.priority < b.priority : a.age < b.age;
}

void ModelEngine::plan() {
  planned_.clear();
  segments_.clear();
  order_.clear();
  bool decoding = false;
  for (Slot& slot : slots_) {
    if (slot.state == State::kFree || slot.grammar != nullptr) continue;
    order_.push_back(&slot);
    decoding |= slot.state == State::kRunning && !slot.paused && slot.pending() == 1;
  }
  std::sort(order_.begin(), order_.end(),
            [&](const Slot* a, const Slot* b) { return ranks_before(*a, *b); });
  budget_ = decoding ? config_.prefill_chunk_busy : config_.prefill_chunk;
  // Each sequence may want one row; what is over goes to probes that want more.
  rows_left_ = config_.logit_rows - static_cast<std::int32_t>(order_.size());
  bool may_admit = true;  // a sequence that waits for pages is not overtaken
  for (Slot* slot : order_) {
    if (slot->paused) continue;
    if (slot->state == State::kWaiting) {
      if (!may_admit || budget_ == 0) continue;
      may_admit = admit(*slot);
      if (!may_admit) continue;
    }
    if (!plan_running(*slot)) preempt(*slot);
  }
}

/// False if the sequence needs a page and there is none, even from those who rank after it.
bool ModelEngine::plan_running(Slot& slot) {
  if (slot.pending() == 1) {
    if (!grow(slot, slot.length())) return false;
    add_segment(slot, 1);
    return true;
  }
  CHECK(pages_for(slot.length()) <= static_cast<std::int32_t>(slot.pages.size()));
  const std::int64_t n = std::min(slot.pending(), budget_);
  // An encoder's text is computed at once; a whole step's budget is enough for any.
  if (n > 0 && (config_.causal || n == slot.pending())) add_segment(slot, n);
  return true;
}

/// Pages for all tokens of a waiting sequence at once, so that its prefill is never stuck half-way.
bool ModelEngine::admit(Slot& slot) {
  std::int32_t running = 0;
  std::int32_t kept = 0;  // of those, the ones that would not give way to this one
  for (const Slot* other : order_) {
    if (other->state != State::kRunning || other->paused) continue;
    ++running;
    kept += other->priority <= slot.priority;
  }
  // One spare page for each running sequence: without it they would preempt the newcomer at once.
  const std::int32_t needed = pages_for(slot.length());
  const auto with_spare = [&](std::int32_t n) { return std::min(needed + n, pool_.total()); };
  if (pool_.free() < with_spare(running) && !make_room(slot, with_spare(kept))) return false;
  slot.state = State::kRunning;
  CHECK(grow(slot, slot.length()));
  return true;
}

/// Preempts for a newcomer: sequences of a lower class; if nothing else runs, paused ones too.
bool ModelEngine::make_room(const Slot& slot, std::int32_t needed) {
  std::int32_t obtainable = pool_.free();
  const bool alone = std::none_of(order_.begin(), order_.end(), [](const Slot* other) {
    return other->state == State::kRunning && !other->paused;
  });
  const auto yields = [&](const Slot& other) {
    return other.state == State::kRunning &&
           (other.priority > slot.priority || (alone && other.paused));
  };
  for (const Slot* other : order_) {
    if (yields(*other)) obtainable += static_cast<std::int32_t>(other->pages.size());
  }
  if (obtainable < needed) return false;
  for (auto it = order_.rbegin(); it != order_.rend() && pool_.free() < needed; ++it) {
    if (yields(**it)) preempt(**it);
  }
  return pool_.free() >= needed;
}

/// Who gives way to `slot`: of those ranking after it the last one, else the last paused one.
ModelEngine::Slot* ModelEngine::victim(const Slot& slot) {
  Slot* paused = nullptr;
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    Slot& other = **it;
    if (&other == &slot || other.state != State::kRunning) continue;
    if (ranks_before(slot, other)) return &other;
    if (other.paused && paused == nullptr) paused = &other;
  }
  return paused;
}

void ModelEngine::preempt(Slot& slot) {
  for (const std::int32_t page : slot.pages) pool_.give(page);
  slot.pages.clear();
  slot.computed = 0;
  slot.state = State::kWaiting;
  ++usage_.preemptions;
}

bool ModelEngine::grow(Slot& slot, std::int64_t positions) {
  while (static_cast<std::int32_t>(slot.pages.size()) < pages_for(positions)) {
    std::int32_t page = pool_.take();
    if (page < 0) {
      Slot* other = victim(slot);
      if (other == nullptr) return false;
      preempt(*other);
      page = pool_.take();
    }
    CHECK(page >= 0 && slot.pages.size() < slot.pages.capacity());
    slot.pages.push_back(page);
  }
  return true;
}

/// Rows that a probe wants of its next n tokens. A segment gives the logits of its last tokens, so
/// `n` is cut where more would be needed than there are rows for, and after the last one wanted.
std::int32_t ModelEngine::probe_rows(const Slot& slot, std::int64_t& n) const {
  const std::vector<std::int64_t>& wanted = slot.probe->positions;
  if (slot.probe_next == wanted.size() || wanted[slot.probe_next] >= slot.computed + n) return 0;
  const std::int64_t first = wanted[slot.probe_next];
  n = std::min(n, first + 1 + rows_left_ - slot.computed);
  std::int64_t last = first;
  for (std::size_t i = slot.probe_next; i < wanted.size() && wanted[i] < slot.computed + n; ++i) {
    last = wanted[i];
  }
  n = last + 1 - slot.computed;
  return static_cast<std::int32_t>(slot.computed + n - first);
}

void ModelEngine::add_segment(Slot& slot, std::int64_t n) {
  const bool decode = slot.pending() == 1;
  backend::Segment s;
  s.hidden = slot.pooler != nullptr;
  s.n_logits = slot.probe                                           ? probe_rows(slot, n)
               : !slot.pooler && slot.computed + n == slot.length() ? 1
                                                                    : 0;
  rows_left_ -= std::max(s.n_logits - 1, 0);
  if (!decode) budget_ -= n;
  s.tokens = slot.tokens.data() + slot.computed;
  s.n = static_cast<std::int32_t>(n);
  s.start = slot.computed;
  s.pages = slot.pages.data();
  planned_.push_back({&slot, s});
  segments_.push_back(s);
}

}  // namespace holdfast::engine
