#include "shared/text/merges.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "shared/base/check.h"

namespace holdfast::text {
namespace {

using Merge = MergeTable::Merge;

// Up to this length moving a few words of memory is faster than a heap.
constexpr std::size_t kShort = 32;
constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();

void merge_short(const MergeTable& table, std::vector<std::int32_t>& symbols, std::size_t first) {
  std::int32_t* const ids = symbols.data() + first;
  std::size_t count = symbols.size() - first;
  std::uint32_t ranks[kShort];
  std::int32_t merged[kShort];
  const auto look = [&](std::size_t i) {
    const Merge merge = table.find(ids[i], ids[i + 1]);
    ranks[i] = merge.id < 0 ? kNoRank : merge.rank;
    merged[i] = merge.id;
  };
  for (std::size_t i = 0; i + 1 < count; ++i) look(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == kNoRank) break;
    ids[best] = merged[best];
    std::copy(ids + best + 2, ids + count, ids + best + 1);
    std::copy(ranks + best + 1, ranks + count - 1, ranks + best);
    std::copy(merged + best + 1, merged + count - 1, merged + best);
    --count;
    if (best > 0) look(best - 1);
    if (best + 1 < count) look(best);
  }
  symbols.resize(first + count);
}

// Merges with a linked list of symbols and a heap of (rank, position). An entry whose rank is no
// longer that of its position is stale; equal ranks mean a pair that may merge now, whichever step
// pushed the entry.
void merge_long(const MergeTable& table, std::vector<std::int32_t>& symbols, std::size_t first,
                MergeScratch& scratch) {
  std::int32_t* const ids = symbols.data() + first;
  const auto count = static_cast<std::int32_t>(symbols.size() - first);
  auto& merges = scratch.merges;
  auto& next = scratch.next;
  auto& previous = scratch.previous;
  auto& heap = scratch.heap;
  merges.assign(static_cast<std::size_t>(count), Merge{kNoRank, -1});
  next.resize(static_cast<std::size_t>(count));
  previous.resize(static_cast<std::size_t>(count));
  heap.clear();
  const auto at = [](std::int32_t i) { return static_cast<std::size_t>(i); };
  const auto look = [&](std::int32_t left) {
    const std::int32_t right = next[at(left)];
    const Merge merge = right < count ? table.find(ids[left], ids[right]) : Merge{};
    merges[at(left)] = merge.id < 0 ? Merge{kNoRank, -1} : merge;
    return merge.id >= 0;
  };
  const auto entry = [&](std::int32_t left) {
    return static_cast<std::uint64_t>(merges[at(left)].rank) << 32 |
           static_cast<std::uint32_t>(left);
  };
  for (std::int32_t i = 0; i < count; ++i) {
    next[at(i)] = i + 1;
    previous[at(i)] = i - 1;
    if (look(i)) heap.push_back(entry(i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const std::uint64_t top = heap.back();
    heap.pop_back();
    const auto left = static_cast<std::int32_t>(top & 0xFFFFFFFFU);
    if (merges[at(left)].id < 0 || merges[at(left)].rank != top >> 32) continue;
    const std::int32_t right = next[at(left)];
    ids[left] = merges[at(left)].id;
    next[at(left)] = next[at(right)];
    if (next[at(right)] < count) previous[at(next[at(right)])] = left;
    merges[at(right)] = {kNoRank, -1};
    for (const std::int32_t changed : {previous[at(left)], left}) {
      if (changed < 0 || !look(changed)) continue;
      heap.push_back(entry(changed));
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  }
  std::size_t symbol_count = 0;
  for (std::int32_t i = 0; i < count; i = next[at(i)]) ids[symbol_count++] = ids[i];
  symbols.resize(first + symbol_count);
}

}  // namespace

MergeTable::MergeTable(std::size_t count) {
  slots_.resize(std::bit_ceil(count * 3 / 2 + 4));
  mask_ = slots_.size() - 1;
}

void MergeTable::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  mask_ = slots_.size() - 1;
  used_ = 0;
  for (const Slot& slot : old) {
    if (slot.merge.id < 0) continue;
    insert(static_cast<std::int32_t>(slot.key >> 32),
           static_cast<std::int32_t>(slot.key & 0xFFFFFFFFU), slot.merge);
  }
}

void MergeTable::insert(std::int32_t left, std::int32_t right, Merge merge) {
  CHECK(merge.id >= 0 && merge.rank != kNoRank);
  if ((used_ + 1) * 3 > slots_.size() * 2) grow();
  const std::uint64_t key = key_of(left, right);
  std::size_t at = hash_of(key) & mask_;
  while (slots_[at].merge.id >= 0 && slots_[at].key != key) at = (at + 1) & mask_;
  if (slots_[at].merge.id >= 0) {
    if (merge.rank < slots_[at].merge.rank) slots_[at].merge = merge;
    return;
  }
  slots_[at] = {key, merge};
  ++used_;
}

void merge_symbols(const MergeTable& table, std::vector<std::int32_t>& symbols, std::size_t first,
                   MergeScratch& scratch) {
  const std::size_t count = symbols.size() - first;
  CHECK(count < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()));
  if (count < 2) return;
  if (count <= kShort) return merge_short(table, symbols, first);
  merge_long(table, symbols, first, scratch);
}

}  // namespace holdfast::text
