#include "shared/text/merges.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <span>

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
class HeapMerge {
 public:
  HeapMerge(const MergeTable& table, std::span<std::int32_t> ids, MergeScratch& scratch)
      : table_(table),
        ids_(ids.data()),
        count_(static_cast<std::int32_t>(ids.size())),
        merges_(scratch.merges),
        next_(scratch.next),
        previous_(scratch.previous),
        heap_(scratch.heap) {
    merges_.assign(ids.size(), Merge{kNoRank, -1});
    next_.resize(ids.size());
    previous_.resize(ids.size());
    heap_.clear();
  }

  // Merges all that merge; returns how many symbols are left, at the start of the ids.
  std::size_t run() {
    for (std::int32_t i = 0; i < count_; ++i) {
      next_[at(i)] = i + 1;
      previous_[at(i)] = i - 1;
      if (look(i)) heap_.push_back(entry(i));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const std::uint64_t top = heap_.back();
      heap_.pop_back();
      const auto left = static_cast<std::int32_t>(top & 0xFFFFFFFFU);
      if (merges_[at(left)].id < 0 || merges_[at(left)].rank != top >> 32) continue;
      merge(left);
      push(previous_[at(left)]);
      push(left);
    }
    std::size_t left_over = 0;
    for (std::int32_t i = 0; i < count_; i = next_[at(i)]) ids_[left_over++] = ids_[i];
    return left_over;
  }

 private:
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

  // Finds how the symbol at `left` merges with the next one; returns true if it does.
  bool look(std::int32_t left) {
    const std::int32_t right = next_[at(left)];
    const Merge found = right < count_ ? table_.find(ids_[left], ids_[right]) : Merge{};
    merges_[at(left)] = found.id < 0 ? Merge{kNoRank, -1} : found;
    return found.id >= 0;
  }
  std::uint64_t entry(std::int32_t left) const {
    return static_cast<std::uint64_t>(merges_[at(left)].rank) << 32 |
           static_cast<std::uint32_t>(left);
  }
  // Replaces the symbols at `left` and after it by the one that they make.
  void merge(std::int32_t left) {
    const std::int32_t right = next_[at(left)];
    ids_[left] = merges_[at(left)].id;
    next_[at(left)] = next_[at(right)];
    if (next_[at(right)] < count_) previous_[at(next_[at(right)])] = left;
    merges_[at(right)] = {kNoRank, -1};
  }
  // Pushes the pair at `left` if there is one that merges.
  void push(std::int32_t left) {
    if (left < 0 || !look(left)) return;
    heap_.push_back(entry(left));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  const MergeTable& table_;
  std::int32_t* const ids_;
  const std::int32_t count_;
  std::vector<Merge>& merges_;
  std::vector<std::int32_t>& next_;
  std::vector<std::int32_t>& previous_;
  std::vector<std::uint64_t>& heap_;
};

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
  HeapMerge merge(table, std::span(symbols).subspan(first), scratch);
  symbols.resize(first + merge.run());
}

}  // namespace holdfast::text
