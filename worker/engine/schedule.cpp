// Plans the next step: the part of ModelEngine that hands out pages and budget.

#include <algorithm>
#include <utility>

#include "worker/engine/model_engine.h"

namespace holdfast::engine {

bool ModelEngine::ranks_before(const Slot& a, const Slot& b) const {
  return a.priority != b.priority ? a.priority < b.priority : a.age < b.age;
}

void ModelEngine::plan() {
  planned_.clear();
  segments_.clear();
  order_.clear();
  work_ = {};
  for (Slot& slot : slots_) {
    if (slot.state == State::kFree || slot.grammar != nullptr) continue;
    order_.push_back(&slot);
    if (slot.paused) continue;
    work_.decoding[slot.prefill_heavy ? 1 : 0] +=
        slot.state == State::kRunning && slot.pending() == 1;
    work_.in_prefill += slot.pending() > 1;
  }
  std::sort(order_.begin(), order_.end(),
            [&](const Slot* a, const Slot* b) { return ranks_before(*a, *b); });
  budget_ = work_.all_decoding() > 0 ? config_.prefill_chunk_busy : config_.prefill_chunk;
  // Each sequence may want one row; the rest goes to probes that request more.
  rows_left_ = config_.logit_rows - static_cast<std::int32_t>(order_.size());
  drafts_left_ =
      std::min({config_.drafts, plan::kDraftRows + 1 - work_.all_decoding(), rows_left_});
  bool may_admit = true;  // a sequence that waits for pages is not overtaken
  if (caches_states()) mark_branches();
  for (Slot* slot : order_) {
    if (slot->paused) continue;
    if (slot->state == State::kWaiting) {
      if (!may_admit || budget_ == 0 || step_time_model_.allow(work_, slot->prefill_heavy, 1) == 0)
        continue;
      if (waits_for_prefix(*slot)) continue;
      may_admit = admit(*slot);
      if (!may_admit) continue;
    }
    if (!plan_running(*slot)) preempt(*slot);
  }
  put_prefill_heavy_last();
}

/// Puts prefill-heavy segments last, as an Executor requires.
void ModelEngine::put_prefill_heavy_last() {
  auto first_prefill_heavy = planned_.begin();
  for (auto it = planned_.begin(); it != planned_.end(); ++it) {
    if (!it->segment.prefill_heavy) std::rotate(first_prefill_heavy++, it, it + 1);
  }
  for (std::size_t i = 0; i < planned_.size(); ++i) segments_[i] = planned_[i].segment;
}

/// False if the sequence needs a page and there is none, even from sequences that rank after it.
bool ModelEngine::plan_running(Slot& slot) {
  // A lag above the budget that others leave counts as not computed.
  if (slot.state_lag > budget_) slot.computed -= std::exchange(slot.state_lag, 0);
  if (slot.pending() == 1) {
    if (!grow(slot, slot.length())) return false;
    add_segment(slot, 1);
    add_drafts(slot);
    return true;
  }
  CHECK(pages_for(slot.length()) <= static_cast<std::int32_t>(slot.pages.size()));
  std::int64_t n = std::min(slot.pending(), budget_);
  if (!slot.probe)
    n = step_time_model_.allow(work_, slot.prefill_heavy, n);  // a probe has its own chunks
  if (caches_states()) n = to_second_mark(slot, n);
  // An encoder's text is computed at once; a whole step's budget is enough for any.
  if (n > 0 && (config_.causal || n == slot.pending())) add_segment(slot, n);
  return true;
}

bool ModelEngine::shares_prefix(const Slot& slot) const {
  return config_.prefix_cache && config_.causal && !slot.pooler && !slot.probe;
}

/// Pages of its prefix that others may have computed. Its last token is computed all the same: its
/// logits are needed, and so are those of all tokens that have no score yet.
std::int32_t ModelEngine::prefix_pages(const Slot& slot) const {
  const std::int64_t most = slot.scores ? slot.scored() : slot.length() - 1;
  return static_cast<std::int32_t>(most / plan::kPageTokens);
}

/// Takes the pages of its prefix that are cached.
void ModelEngine::find_prefix(Slot& slot) {
  if (!shares_prefix(slot) || !slot.pages.empty()) return;
  const PrefixRoot root = slot.root();
  const std::int32_t most = prefix_pages(slot);
  if (config_.recurrent) {
    slot.from = cache_.find_state(root, slot.tokens, most, slot.pages);
  } else {
    cache_.find(root, slot.tokens, most, slot.pages);
  }
  slot.cached_pages = static_cast<std::int32_t>(slot.pages.size());
  slot.computed = slot.cached_pages * plan::kPageTokens;
  if (slot.cached == Slot::kNotLookedUp) slot.cached = slot.computed;
  if (!config_.recurrent) return;
  forget_marks(slot);
  mark(slot, cache_.match_pages(root, slot.tokens, most));  // others begin so, too
  mark(slot, static_cast<std::int32_t>((slot.prompt_n - 1) / plan::kPageTokens));
}

/// Inserts pages that have become full into the prefix cache. A page of the same content that
/// another sequence made meanwhile replaces its own.
void ModelEngine::insert_prefix(Slot& slot) {
  if (!shares_prefix(slot)) return;
  while ((slot.cached_pages + 1) * plan::kPageTokens <= slot.computed) {
    const auto at = static_cast<std::size_t>(slot.cached_pages);
    const auto tokens =
        std::span<const TokenId>(slot.tokens).subspan(at * plan::kPageTokens, plan::kPageTokens);
    const std::int32_t parent = at == 0 ? PrefixCache::kNoParent : slot.pages[at - 1];
    const std::int32_t page = cache_.insert(slot.root(), tokens, parent, slot.pages[at]);
    if (page != slot.pages[at]) {
      pool_.share(page);
      pool_.give(slot.pages[at]);
      slot.pages[at] = page;
    }
    ++slot.cached_pages;
  }
}

/// True if a sequence that ranks before it is about to make pages that it could share.
bool ModelEngine::waits_for_prefix(const Slot& slot) const {
  if (!shares_prefix(slot)) return false;
  const std::int32_t most = prefix_pages(slot);
  for (const Slot* other : order_) {
    if (other == &slot || other->state != State::kRunning || other->paused) continue;
    if (!shares_prefix(*other) || other->root() != slot.root()) continue;
    if (other->pending() <= 1 || ranks_before(slot, *other)) continue;
    const std::int32_t shared = std::min(common_pages(slot, *other), most);
    if (shared > other->cached_pages && reusable_pages(slot, shared) < shared) return true;
  }
  return false;
}

std::int32_t ModelEngine::common_pages(const Slot& a, const Slot& b) {
  const auto same =
      std::mismatch(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end());
  return static_cast<std::int32_t>((same.first - a.tokens.begin()) / plan::kPageTokens);
}

/// Marks where waiting sequences will leave the text of those that go before them.
void ModelEngine::mark_branches() {
  for (std::size_t i = 1; i < order_.size(); ++i) {
    const Slot& slot = *order_[i];
    if (slot.state != State::kWaiting || !shares_prefix(slot)) continue;
    for (std::size_t k = 0; k < i; ++k) {
      Slot& other = *order_[k];
      if (other.pending() <= 1 || !shares_prefix(other) || other.root() != slot.root()) continue;
      const std::int32_t shared = std::min(common_pages(slot, other), prefix_pages(slot));
      if (reusable_pages(slot, shared) < shared) mark(other, shared);
    }
  }
}

/// The number of its first `most` pages that need not be computed.
std::int32_t ModelEngine::reusable_pages(const Slot& slot, std::int32_t most) const {
  const PrefixRoot root = slot.root();
  return config_.recurrent ? cache_.match_state_pages(root, slot.tokens, most)
                           : cache_.match_pages(root, slot.tokens, most);
}

/// Asks for the state after so many pages, if it is still to come.
void ModelEngine::mark(Slot& slot, std::int32_t pages) {
  if (pages * plan::kPageTokens <= slot.computed) return;
  const auto at = std::lower_bound(slot.marks.begin(), slot.marks.end(), pages);
  if (at == slot.marks.end() || *at != pages) slot.marks.insert(at, pages);
}

/// Forgets the marks that the sequence has passed.
void ModelEngine::forget_marks(Slot& slot) {
  std::erase_if(slot.marks,
                [&](std::int32_t pages) { return pages * plan::kPageTokens <= slot.computed; });
}

/// A segment saves one state: of its next n tokens it takes those up to the second mark.
std::int64_t ModelEngine::to_second_mark(const Slot& slot, std::int64_t n) const {
  if (slot.marks.size() < 2) return n;
  return std::min(n, slot.marks[1] * plan::kPageTokens - slot.computed);
}

/// Plans which state of this segment is saved as a snapshot, and as what. Of generated text only
/// the last snapshot stays: it moves on with the text.
void ModelEngine::plan_snapshot(Planned& planned) {
  Slot& slot = *planned.slot;
  backend::Segment& s = planned.segment;
  if (!caches_states() || !shares_prefix(slot)) return;
  const std::int64_t end = s.start + s.n;
  std::int64_t at = 0;
  if (!slot.marks.empty()) at = slot.marks[0] * plan::kPageTokens;
  planned.trails = slot.marks.empty() && end > slot.prompt_n && end % plan::kPageTokens == 0;
  if (planned.trails) at = end;
  if (at <= s.start || at > end) return;
  if (planned.trails && slot.trail >= 0) s.snapshot_state = cache_.take_state_of(slot.trail);
  if (planned.trails) slot.trail = -1;
  if (s.snapshot_state < 0) s.snapshot_state = cache_.take_state();
  if (s.snapshot_state >= 0) s.snapshot_after = static_cast<std::int32_t>(at - s.start);
}

/// Frees the snapshot of a segment that came to nothing.
void ModelEngine::drop_snapshot(const Planned& planned) {
  if (planned.caches_snapshot()) cache_.drop_state(planned.segment.snapshot_state);
}

/// Caches the snapshot of a segment that was run: the state after a page, which is in the cache by
/// now.
void ModelEngine::insert_snapshot(const Planned& planned) {
  Slot& slot = *planned.slot;
  const std::int64_t at = planned.segment.start + planned.segment.snapshot_after;
  const auto pages = static_cast<std::size_t>(at / plan::kPageTokens);
  const std::int32_t page = slot.pages[pages - 1];
  const bool is_stored = cache_.set_state(page, planned.segment.snapshot_state);
  if (planned.trails && is_stored) slot.trail = page;
}

/// True if the sequence may need more pages than it has. Its last token is not computed.
bool ModelEngine::may_grow(const Slot& slot) const {
  return pages_for(slot.prompt_n + slot.generated_max - 1) >
         static_cast<std::int32_t>(slot.pages.size());
}

/// Takes pages for all tokens of a waiting sequence at once, so that its prefill is never stuck
/// half-way.
bool ModelEngine::admit(Slot& slot) {
  std::int32_t growing = 0;
  std::int32_t not_preemptible = 0;  // of those, the ones that would not give way to this one
  for (const Slot* other : order_) {
    if (other->state != State::kRunning || other->paused || !may_grow(*other)) continue;
    ++growing;
    not_preemptible += other->priority <= slot.priority;
  }
  // A spare page for each running sequence that may want one: it would preempt the newcomer.
  find_prefix(slot);
  const auto found = static_cast<std::int32_t>(slot.pages.size());
  const std::int32_t needed = pages_for(slot.length()) - found;
  const auto with_spare = [&](std::int32_t n) {
    return std::min(needed + n, pool_.total() - found);
  };
  if (available() < with_spare(growing) && !preempt_for(slot, with_spare(not_preemptible))) {
    give_pages(slot);
    return false;
  }
  slot.state = State::kRunning;
  CHECK(grow(slot, slot.length()));
  if (config_.assume_prompts) slot.computed = slot.length() - 1;
  return true;
}

/// Preempts for a newcomer: sequences of a lower priority; if nothing else runs, paused ones too.
bool ModelEngine::preempt_for(const Slot& slot, std::int32_t needed) {
  std::int32_t obtainable = available();
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
  for (auto it = order_.rbegin(); it != order_.rend() && available() < needed; ++it) {
    if (yields(**it)) preempt(**it);
  }
  return available() >= needed;
}

/// The sequence that gives way to `slot`: the last one that ranks after it, else the last paused
/// one.
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
  give_pages(slot);
  slot.state = State::kWaiting;
  ++usage_.preemptions;
}

void ModelEngine::give_pages(Slot& slot) {
  for (const std::int32_t page : slot.pages) pool_.give(page);
  slot.pages.clear();
  if (slot.from >= 0) cache_.unpin(std::exchange(slot.from, -1));
  slot.marks.clear();
  slot.trail = -1;
  slot.cached_pages = 0;
  slot.computed = 0;
  slot.state_lag = 0;
}

std::int32_t ModelEngine::take_page(const Slot& slot) {
  const std::int32_t last = slot.pages.empty() ? -1 : slot.pages.back();
  const std::int32_t page = pool_.take(last);
  return page < 0 && cache_.evict() ? pool_.take() : page;
}

bool ModelEngine::grow(Slot& slot, std::int64_t positions) {
  while (static_cast<std::int32_t>(slot.pages.size()) < pages_for(positions)) {
    std::int32_t page = take_page(slot);
    while (page < 0) {  // a victim may share its pages with others
      Slot* other = victim(slot);
      if (other == nullptr) return false;
      preempt(*other);
      page = take_page(slot);
    }
    CHECK(slot.pages.size() < slot.pages.capacity());
    slot.pages.push_back(page);
  }
  return true;
}

/// Rows that a probe requests of its next n tokens. A segment gives the logits of its last tokens,
/// so `n` is cut where more would be needed than there are rows for, and after the last one
/// requested.
std::int32_t ModelEngine::probe_rows(const Slot& slot, std::int64_t& n) const {
  const std::vector<std::int64_t>& positions = slot.probe->positions;
  if (slot.probe_next == positions.size() || positions[slot.probe_next] >= slot.computed + n)
    return 0;
  const std::int64_t first = positions[slot.probe_next];
  n = std::min(n, first + 1 + rows_left_ - slot.computed);
  std::int64_t last = first;
  for (std::size_t i = slot.probe_next; i < positions.size() && positions[i] < slot.computed + n;
       ++i) {
    last = positions[i];
  }
  n = last + 1 - slot.computed;
  return static_cast<std::int32_t>(slot.computed + n - first);
}

/// Rows that the forward gives for the next n tokens of a sequence; n may become less. Rows of a
/// prompt that is scored are requested after the forward.
std::int32_t ModelEngine::logit_row_count(const Slot& slot, std::int64_t& n) const {
  if (slot.probe) return probe_rows(slot, n);
  if (slot.pooler || slot.scores) return 0;
  return slot.computed + n == slot.length() ? 1 : 0;
}

void ModelEngine::add_segment(Slot& slot, std::int64_t n) {
  const bool decode = slot.pending() == 1;
  backend::Segment s;
  s.prefill_heavy = slot.prefill_heavy;
  s.state = slot.at;
  s.from = slot.from;
  s.deferred_logits = slot.scores != nullptr;
  s.n_logits = logit_row_count(slot, n);
  if (s.n_logits > 0) request_top_logits(slot, s);
  rows_left_ -= std::max(s.n_logits - 1, 0);
  if (!decode) {
    budget_ -= n;
    work_.prompt[slot.prefill_heavy ? 1 : 0] += n;
  }
  budget_ -= slot.state_lag;
  drafts_left_ -= slot.state_lag;
  work_.extra_rows[slot.prefill_heavy ? 1 : 0] += slot.state_lag;
  s.start = slot.computed - slot.state_lag;
  s.tokens = slot.tokens.data() + s.start;
  s.n = slot.state_lag + static_cast<std::int32_t>(n);
  s.pages = slot.pages.data();
  if (slot.pooler) slot.pooler->want(s, s.start + s.n == slot.length());
  planned_.push_back({&slot, s, slot.scores != nullptr});
  plan_snapshot(planned_.back());
  segments_.push_back(planned_.back().segment);
}

/// Requests only the greatest logits of a row where its token follows from them.
void ModelEngine::request_top_logits(const Slot& slot, backend::Segment& s) const {
  if (slot.probe || slot.pooler || slot.scores || slot.matcher || slot.banned || is_bound(slot) ||
      slot.replayed_n != slot.replayed.size() || slot.sampling.logprobs >= 0) {
    return;
  }
  s.best = executor_->gives_best() &&
           sampler_.takes_greatest(slot.sampling, &slot.extra, slot.generated());
  const std::int32_t top = sampler_.candidate_count(slot.sampling, &slot.extra, slot.generated());
  if (top <= executor_->top_most()) s.top = top;
}

/// The most draft tokens that may follow what is planned for a sequence that decodes, in pages that
/// it has.
std::int64_t ModelEngine::drafts_most(const Planned& planned) const {
  const Slot& slot = *planned.slot;
  const bool plain =
      !slot.probe && !slot.pooler && !slot.scores && slot.replayed_n == slot.replayed.size();
  if (!plain) return 0;
  const std::int64_t free_positions =
      std::min<std::int64_t>(static_cast<std::int64_t>(slot.pages.size()) * plan::kPageTokens,
                             slot.prompt_n + slot.generated_max) -
      slot.length();
  const std::int64_t most =
      std::min<std::int64_t>({drafts_left_, rows_left_, budget_, free_positions});
  if (!config_.recurrent) return most;
  // The cache may want the state after a page, so a draft passes no page's end.
  return std::min(most, plan::kPageTokens - 1 - slot.length() % plan::kPageTokens);
}

/// Adds draft tokens after the last token of a sequence that decodes.
void ModelEngine::add_drafts(Slot& slot) {
  Planned& planned = planned_.back();
  backend::Segment& s = planned.segment;
  const std::int64_t most = drafts_most(planned);
  if (most <= 0) return;
  forced_.clear();
  if (slot.matcher) forced_tokens(*slot.matcher, forced_);
  const Drafter::Price price = {step_time_model_.row_share(slot.prefill_heavy),
                                work_.all_decoding()};
  const std::span<const TokenId> drafted =
      slot.drafter.propose(slot.tokens, static_cast<std::size_t>(s.n), most, price, forced_);
  const auto drafts = static_cast<std::int32_t>(drafted.size()) - s.n;
  if (drafts <= 0) return;
  drafts_left_ -= drafts;
  budget_ -= drafts;
  rows_left_ -= drafts;
  work_.extra_rows[slot.prefill_heavy ? 1 : 0] += drafts;
  planned.drafts = drafts;
  if (config_.recurrent) {
    CHECK(s.snapshot_after == 0);  // a full page has no position left for a draft
    s.from = s.begins_at();
    s.state = spare_after_;
    s.snapshot_after = s.n;
    s.snapshot_state = spare_before_;
    drafts_left_ = 0;  // there is one pair of spare states
  }
  s.tokens = drafted.data();
  s.n += drafts;
  s.n_logits = 1 + drafts;
  segments_.back() = s;
}

/// Takes the draft tokens out of what is planned. False if there were none.
bool ModelEngine::drop_drafts() {
  bool any = false;
  for (std::size_t i = 0; i < planned_.size(); ++i) {
    Planned& planned = planned_[i];
    if (planned.drafts == 0) continue;
    any = true;
    backend::Segment& s = planned.segment;
    s.n -= std::exchange(planned.drafts, 0);
    s.n_logits = 1;
    if (config_.recurrent) {
      s.state = planned.slot->at;
      s.from = planned.slot->from;
      s.snapshot_after = 0;
      s.snapshot_state = -1;
    }
    segments_[i] = s;
  }
  return any;
}

}  // namespace holdfast::engine
