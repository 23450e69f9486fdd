#pragma once
// The common algorithm of BPE and SentencePiece: while any two neighbours may merge, merge the pair
// of the lowest rank, the leftmost of equals. O(n log n) for any input.

#include <cstdint>
#include <vector>

namespace holdfast::text {

/// The pairs of symbols that merge, with ranks and results. A symbol is a token id, or a negative
/// number for a character or byte that is not a token. Safe from any thread once it is filled.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank = 0;
    std::int32_t id = -1;  // -1: the pair does not merge
  };
  explicit MergeTable(std::size_t count = 0);
  /// Inserts a pair. The first rank of a pair stays, unless a later one is lower.
  void insert(std::int32_t left, std::int32_t right, Merge merge);
  Merge find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t at = hash_of(key) & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.merge.id < 0) return {};
      if (slot.key == key) return slot.merge;
    }
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    Merge merge;  // id -1: free
  };
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  static std::size_t hash_of(std::uint64_t key) {
    const std::uint64_t spread = (key ^ key >> 29) * 0x9E3779B97F4A7C15ULL;
    return spread ^ spread >> 32;
  }
  void grow();

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  std::size_t used_ = 0;
};

/// Buffers that encode calls reuse; one for each thread.
struct MergeScratch {
  std::vector<MergeTable::Merge> merges;
  std::vector<std::int32_t> next;
  std::vector<std::int32_t> previous;
  std::vector<std::uint64_t> heap;
};

/// Merges symbols[first..end) in place; the vector shrinks. Fewer than 2^31 symbols (CHECKed).
void merge_symbols(const MergeTable& table, std::vector<std::int32_t>& symbols, std::size_t first,
                   MergeScratch& scratch);

}  // namespace holdfast::text
