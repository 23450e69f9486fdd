#include "worker/engine/prefix_cache.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "shared/plan/plan.h"

namespace holdfast::engine {

namespace {

constexpr auto kPage = static_cast<std::size_t>(plan::kPageTokens);

}  // namespace

PrefixCache::PrefixCache(PagePool& pool, std::int32_t first_state, std::int32_t states)
    : pool_(pool),
      entries_(static_cast<std::size_t>(pool.total())),
      tokens_(static_cast<std::size_t>(pool.total()) * kPage),
      buckets_(static_cast<std::size_t>(pool.total()) * 2 + 1, -1),
      first_state_(first_state),
      states_(static_cast<std::size_t>(states)) {}

std::span<const PrefixCache::TokenId> PrefixCache::tokens_of(std::int32_t page) const {
  return std::span(tokens_).subspan(static_cast<std::size_t>(page) * kPage, kPage);
}

Result<PrefixRoot> PrefixRoot::from(std::string_view scope) {
  PrefixRoot root;
  if (scope.size() > sizeof(root.scope)) {
    return Error{Errc::kInvalidRequest,
                 "prefix root: expected at most 16 bytes, got " + std::to_string(scope.size())};
  }
  std::memcpy(root.scope.data(), scope.data(), scope.size());
  return root;
}

std::size_t PrefixCache::bucket(const PrefixRoot& root, std::span<const TokenId> tokens,
                                std::int32_t parent) const {
  std::uint64_t h = 1469598103934665603u ^ static_cast<std::uint32_t>(parent);
  if (parent == kNoParent) h ^= root.scope[0] + (root.prefill_heavy ? 1 : 0);
  for (const TokenId id : tokens) h = (h ^ static_cast<std::uint32_t>(id)) * 1099511628211u;
  return static_cast<std::size_t>((h ^ h >> 32) % buckets_.size());
}

std::int32_t PrefixCache::look_up(const PrefixRoot& root, std::span<const TokenId> tokens,
                                  std::int32_t parent) const {
  std::int32_t page = buckets_[bucket(root, tokens, parent)];
  for (; page >= 0; page = entries_[static_cast<std::size_t>(page)].next) {
    const Entry& entry = entries_[static_cast<std::size_t>(page)];
    if (entry.parent != parent || (parent == kNoParent && entry.root != root)) continue;
    if (std::ranges::equal(tokens_of(page), tokens)) break;
  }
  return page;
}

void PrefixCache::find(const PrefixRoot& root, std::span<const TokenId> tokens, std::int32_t most,
                       std::vector<std::int32_t>& out) {
  ++now_;
  std::int32_t parent = kNoParent;
  for (std::int32_t i = 0; i < most; ++i) {
    const std::int32_t page =
        look_up(root, tokens.subspan(static_cast<std::size_t>(i) * kPage, kPage), parent);
    if (page < 0) return;
    pool_.share(page);
    entries_[static_cast<std::size_t>(page)].last_use = now_;
    out.push_back(page);
    parent = page;
  }
}

/// The number of pages up to the last one after which there is a state, which is `page`.
std::int32_t PrefixCache::deepest_state(const PrefixRoot& root, std::span<const TokenId> tokens,
                                        std::int32_t most, std::int32_t& page) const {
  std::int32_t parent = kNoParent, deepest = 0;
  page = -1;
  for (std::int32_t i = 0; i < most; ++i) {
    parent = look_up(root, tokens.subspan(static_cast<std::size_t>(i) * kPage, kPage), parent);
    if (parent < 0) break;
    if (entries_[static_cast<std::size_t>(parent)].state < 0) continue;
    deepest = i + 1;
    page = parent;
  }
  return deepest;
}

std::int32_t PrefixCache::match_state_pages(const PrefixRoot& root, std::span<const TokenId> tokens,
                                            std::int32_t most) const {
  std::int32_t page = -1;
  return deepest_state(root, tokens, most, page);
}

std::int32_t PrefixCache::find_state(const PrefixRoot& root, std::span<const TokenId> tokens,
                                     std::int32_t most, std::vector<std::int32_t>& out) {
  std::int32_t page = -1;
  const std::int32_t pages = deepest_state(root, tokens, most, page);
  if (page < 0) return -1;
  find(root, tokens, pages, out);
  const std::int32_t state = entries_[static_cast<std::size_t>(page)].state;
  ++state_at(state).pins;
  state_at(state).last_use = now_;
  return state;
}

std::int32_t PrefixCache::take_state() {
  State* oldest = nullptr;
  for (State& state : states_) {
    if (state.pins > 0) continue;
    const bool older = oldest == nullptr ||
                       (oldest->page >= 0 && (state.page < 0 || state.last_use < oldest->last_use));
    if (older) oldest = &state;
  }
  if (oldest == nullptr) return -1;
  if (oldest->page >= 0) entries_[static_cast<std::size_t>(oldest->page)].state = -1;
  *oldest = {-1, 1, ++now_};
  return first_state_ + static_cast<std::int32_t>(oldest - states_.data());
}

std::int32_t PrefixCache::take_state_of(std::int32_t page) {
  Entry& entry = entries_[static_cast<std::size_t>(page)];
  if (entry.state < 0 || state_at(entry.state).pins > 0) return -1;
  const std::int32_t state = std::exchange(entry.state, -1);
  state_at(state) = {-1, 1, ++now_};
  return state;
}

bool PrefixCache::set_state(std::int32_t page, std::int32_t state) {
  Entry& entry = entries_[static_cast<std::size_t>(page)];
  CHECK(entry.used && state_at(state).pins == 1 && state_at(state).page < 0);
  if (entry.state >= 0) {
    state_at(entry.state).last_use = ++now_;
    drop_state(state);
    return false;
  }
  entry.state = state;
  state_at(state) = {page, 0, ++now_};
  return true;
}

void PrefixCache::drop_state(std::int32_t state) {
  CHECK(state_at(state).pins == 1 && state_at(state).page < 0);
  state_at(state) = {};
}

void PrefixCache::unpin(std::int32_t state) {
  CHECK(state_at(state).pins > 0);
  --state_at(state).pins;
}

std::int32_t PrefixCache::match_pages(const PrefixRoot& root, std::span<const TokenId> tokens,
                                      std::int32_t most) const {
  std::int32_t parent = kNoParent;
  for (std::int32_t i = 0; i < most; ++i) {
    parent = look_up(root, tokens.subspan(static_cast<std::size_t>(i) * kPage, kPage), parent);
    if (parent < 0) return i;
  }
  return most;
}

std::int32_t PrefixCache::insert(const PrefixRoot& root, std::span<const TokenId> tokens,
                                 std::int32_t parent, std::int32_t page) {
  CHECK(tokens.size() == kPage);
  CHECK(parent < 0 || entries_[static_cast<std::size_t>(parent)].used);
  const std::int32_t existing = look_up(root, tokens, parent);
  if (existing >= 0) {
    entries_[static_cast<std::size_t>(existing)].last_use = ++now_;
    return existing;
  }
  Entry& entry = entries_[static_cast<std::size_t>(page)];
  CHECK(!entry.used);
  pool_.share(page);
  std::ranges::copy(tokens, tokens_.begin() + page * static_cast<std::int64_t>(kPage));
  std::int32_t& first = buckets_[bucket(root, tokens, parent)];
  entry = {true, parent, first, 0, ++now_, -1, root};
  first = page;
  if (parent >= 0) ++entries_[static_cast<std::size_t>(parent)].children;
  return page;
}

void PrefixCache::remove(std::int32_t page) {
  Entry& entry = entries_[static_cast<std::size_t>(page)];
  std::int32_t* link = &buckets_[bucket(entry.root, tokens_of(page), entry.parent)];
  while (*link != page) link = &entries_[static_cast<std::size_t>(*link)].next;
  *link = entry.next;
  if (entry.parent >= 0) --entries_[static_cast<std::size_t>(entry.parent)].children;
  if (entry.state >= 0) state_at(entry.state).page = -1;
  entry = {};
  pool_.give(page);
}

bool PrefixCache::evict() {
  std::int32_t oldest = -1;
  for (std::int32_t page = 0; page < pool_.total(); ++page) {
    const Entry& entry = entries_[static_cast<std::size_t>(page)];
    if (!entry.used || entry.children > 0 || pool_.holders(page) > 1) continue;
    if (oldest < 0 || entry.last_use < entries_[static_cast<std::size_t>(oldest)].last_use) {
      oldest = page;
    }
  }
  if (oldest < 0) return false;
  remove(oldest);
  return true;
}

std::int32_t PrefixCache::evictable() const {
  // A holder of a page holds its parents, so below a page that the cache alone holds are only such.
  std::int32_t n = 0;
  for (std::int32_t page = 0; page < pool_.total(); ++page) {
    n += entries_[static_cast<std::size_t>(page)].used && pool_.holders(page) == 1;
  }
  return n;
}

}  // namespace holdfast::engine
