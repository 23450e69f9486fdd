#pragma once
// Bytes to token id: one flat hash table, made once, read by any thread. Most words are at most
// eight bytes long and are compared inside the slot, so a lookup touches one cache line. Slots are
// small, as a vocabulary has hundreds of thousands of them.

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace holdfast::text {

/// A map from bytes to token id. Safe from any thread once it is filled.
class TokenMap {
 public:
  /// Makes an empty map for at most `count` keys; more than that is a bug (CHECKed).
  explicit TokenMap(std::size_t count = 0);
  /// Inserts a key. False (and nothing changes) if it exists. Keys are not empty (CHECKed).
  bool insert(std::string_view key, std::int32_t id);
  /// Returns the id, -1 if absent. Keys of 0 bytes are never present.
  std::int32_t find(std::string_view key) const;
  /// Prefetches the key's slot into the cache. This makes lookups of many keys faster, as a large
  /// vocabulary's slots are scattered over the memory.
  void fetch(std::string_view key) const;
  std::size_t longest_key() const { return longest_; }

 private:
  static constexpr std::uint32_t kHeadBytes = 8;
  struct Slot {
    std::uint64_t head = 0;  // first eight bytes, zero-padded
    std::uint32_t length_or_offset =
        0;  // 0: free; to 8: the key's length; above: its offset in long_, + 9
    std::int32_t id = -1;
  };
  static std::uint64_t head_of(std::string_view key) {
    std::uint64_t head = 0;
    std::memcpy(&head, key.data(), key.size() < kHeadBytes ? key.size() : kHeadBytes);
    return head;
  }
  bool holds(const Slot& slot, std::string_view key, std::uint64_t head) const;
  std::uint32_t store_key(std::string_view key);
  std::size_t slot_for(std::string_view key, std::uint64_t head) const;

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> long_;  // longer keys: length, then the bytes in whole words
  std::size_t mask_ = 0;
  std::size_t used_ = 0;
  std::size_t longest_ = 0;
};

}  // namespace holdfast::text
