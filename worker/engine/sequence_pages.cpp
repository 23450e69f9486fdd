#include "worker/engine/sequence_pages.h"

#include <algorithm>
#include <span>
#include <utility>

#include "shared/plan/plan.h"

namespace holdfast::engine {

SequencePages::SequencePages(const ModelEngineConfig& config)
    : config_(config),
      pool_(config.pages),
      cache_(pool_, config.slots, config.recurrent ? plan::snapshot_states_of(config.slots) : 0) {}

bool SequencePages::take(Slot& slot) {
  std::vector<std::int32_t>& pages = slot.prefix.pages;
  std::int32_t page = pool_.take(pages.empty() ? -1 : pages.back());
  if (page < 0 && cache_.evict()) page = pool_.take();
  if (page < 0) return false;
  CHECK(pages.size() < pages.capacity());
  pages.push_back(page);
  return true;
}

void SequencePages::give_back(Slot& slot) {
  PrefixState& prefix = slot.prefix;
  for (const std::int32_t page : prefix.pages) pool_.give(page);
  prefix.pages.clear();
  unpin_origin(slot);
  prefix.marks.clear();
  prefix.trail = -1;
  prefix.cached_pages = 0;
  slot.computed = 0;
  slot.recurrent.lag = 0;
}

bool SequencePages::shares_prefix(const Slot& slot) const {
  return config_.prefix_cache && config_.causal && !slot.probe.pooler && !slot.probe.request;
}

std::int32_t SequencePages::prefix_pages(const Slot& slot) {
  const std::int64_t most = slot.probe.scores ? slot.probe.scored() : slot.length() - 1;
  return static_cast<std::int32_t>(most / plan::kPageTokens);
}

void SequencePages::find_prefix(Slot& slot) {
  PrefixState& prefix = slot.prefix;
  if (!shares_prefix(slot) || !prefix.pages.empty()) return;
  const std::int32_t most = prefix_pages(slot);
  if (config_.recurrent) {
    prefix.from = cache_.find_state(prefix.root, slot.tokens, most, prefix.pages);
  } else {
    cache_.find(prefix.root, slot.tokens, most, prefix.pages);
  }
  prefix.cached_pages = static_cast<std::int32_t>(prefix.pages.size());
  slot.computed = prefix.cached_pages * plan::kPageTokens;
  if (prefix.cached == PrefixState::kNotLookedUp) prefix.cached = slot.computed;
  if (!config_.recurrent) return;
  forget_marks(slot);
  mark(slot, cache_.match_pages(prefix.root, slot.tokens, most));  // others begin so, too
  mark(slot, static_cast<std::int32_t>((slot.prompt_n - 1) / plan::kPageTokens));
}

void SequencePages::insert_prefix(Slot& slot) {
  if (!shares_prefix(slot)) return;
  PrefixState& prefix = slot.prefix;
  while ((prefix.cached_pages + 1) * plan::kPageTokens <= slot.computed) {
    const auto at = static_cast<std::size_t>(prefix.cached_pages);
    const auto tokens =
        std::span<const TokenId>(slot.tokens).subspan(at * plan::kPageTokens, plan::kPageTokens);
    const std::int32_t parent = at == 0 ? PrefixCache::kNoParent : prefix.pages[at - 1];
    const std::int32_t page = cache_.insert(prefix.root, tokens, parent, prefix.pages[at]);
    if (page != prefix.pages[at]) {
      pool_.share(page);
      pool_.give(prefix.pages[at]);
      prefix.pages[at] = page;
    }
    ++prefix.cached_pages;
  }
}

std::int32_t SequencePages::common_pages(const Slot& a, const Slot& b) {
  const auto same =
      std::mismatch(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end());
  return static_cast<std::int32_t>((same.first - a.tokens.begin()) / plan::kPageTokens);
}

std::int32_t SequencePages::reusable_pages(const Slot& slot, std::int32_t most) const {
  const PrefixRoot& root = slot.prefix.root;
  return config_.recurrent ? cache_.match_state_pages(root, slot.tokens, most)
                           : cache_.match_pages(root, slot.tokens, most);
}

void SequencePages::mark(Slot& slot, std::int32_t pages) {
  if (pages * plan::kPageTokens <= slot.computed) return;
  std::vector<std::int32_t>& marks = slot.prefix.marks;
  const auto at = std::lower_bound(marks.begin(), marks.end(), pages);
  if (at == marks.end() || *at != pages) marks.insert(at, pages);
}

/// Forgets the marks that the sequence has passed.
void SequencePages::forget_marks(Slot& slot) {
  std::erase_if(slot.prefix.marks,
                [&](std::int32_t pages) { return pages * plan::kPageTokens <= slot.computed; });
}

std::int64_t SequencePages::to_second_mark(const Slot& slot, std::int64_t n) {
  if (slot.prefix.marks.size() < 2) return n;
  return std::min(n, slot.prefix.marks[1] * plan::kPageTokens - slot.computed);
}

/// The position after which this segment's state is to be saved: at a mark, or after generated text
/// that fills a page; else 0.
std::int64_t SequencePages::snapshot_position(Planned& planned) {
  const std::vector<std::int32_t>& marks = planned.slot->prefix.marks;
  if (!marks.empty()) return marks[0] * plan::kPageTokens;
  const std::int64_t end = planned.segment.start + planned.segment.n;
  planned.trails = end > planned.slot->prompt_n && end % plan::kPageTokens == 0;
  return planned.trails ? end : 0;
}

void SequencePages::plan_snapshot(Planned& planned) {
  PrefixState& prefix = planned.slot->prefix;
  backend::Segment& s = planned.segment;
  if (!caches_states() || !shares_prefix(*planned.slot)) return;
  const std::int64_t at = snapshot_position(planned);
  if (at <= s.start || at > s.start + s.n) return;
  std::int32_t state = -1;
  if (planned.trails) {
    if (prefix.trail >= 0) state = cache_.take_state_of(prefix.trail);
    prefix.trail = -1;
  }
  if (state < 0) state = cache_.take_state();
  if (state < 0) return;
  s.states.snapshot = backend::StateSnapshot{static_cast<std::int32_t>(at - s.start), state};
}

void SequencePages::drop_snapshot(const Planned& planned) {
  if (planned.caches_snapshot()) cache_.drop_state(planned.segment.states.snapshot->state);
}

/// Caches the snapshot of a segment that was run: the state after a page, which is in the cache by
/// now.
void SequencePages::insert_snapshot(const Planned& planned) {
  Slot& slot = *planned.slot;
  const backend::StateSnapshot& snapshot = *planned.segment.states.snapshot;
  const std::int64_t at = planned.segment.start + snapshot.after;
  const auto pages = static_cast<std::size_t>(at / plan::kPageTokens);
  const std::int32_t page = slot.prefix.pages[pages - 1];
  const bool is_stored = cache_.set_state(page, snapshot.state);
  if (planned.trails && is_stored) slot.prefix.trail = page;
}

void SequencePages::unpin_origin(Slot& slot) {
  if (slot.prefix.from >= 0) cache_.unpin(std::exchange(slot.prefix.from, -1));
}

void SequencePages::insert(const Planned& planned) {
  insert_prefix(*planned.slot);
  if (planned.caches_snapshot()) insert_snapshot(planned);
  if (config_.recurrent) forget_marks(*planned.slot);
}

}  // namespace holdfast::engine
