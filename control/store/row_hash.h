#pragma once
// The hash of rows' checksums: one part for each column, from its name, its value's type and its
// value. A row's checksum is the exclusive or of its columns' parts, cut to kSumMask.

#include <sqlite3.h>

#include <cstdint>
#include <cstring>
#include <string_view>

namespace holdfast::store {

/// Cuts a sum to a number that SQLite stores in six bytes.
inline constexpr std::uint64_t kSumMask = (std::uint64_t{1} << 47) - 1;

/// A bijection: two words that differ stay different.
inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// The last bytes, fewer than eight, as the low ones of a word. Loads overlap: a call to copy so
/// few bytes would cost more than the hash.
inline std::uint64_t last_word(const unsigned char* at, std::size_t size) {
  if (size >= 4) {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    std::memcpy(&low, at, 4);
    std::memcpy(&high, at + size - 4, 4);
    return low | std::uint64_t{high} << (8 * (size - 4));
  }
  const std::size_t middle = size / 2;
  return std::uint64_t{at[0]} | std::uint64_t{at[middle]} << (8 * middle) |
         std::uint64_t{at[size - 1]} << (8 * (size - 1));
}

/// Returns a hash of `size` bytes. It finds damage, not forgery: an attacker can make two texts
/// with one hash.
inline std::uint64_t hash_bytes(std::uint64_t seed, const void* bytes, std::size_t size) {
  const auto* at = static_cast<const unsigned char*>(bytes);
  std::uint64_t h = mix(seed + size);
  for (; size >= 8; size -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    h = mix(h ^ word);
  }
  return size == 0 ? h : mix(h ^ last_word(at, size));
}

/// The number of a column's name. Statements that run for each group have it instead of the name.
inline std::int64_t name_hash(std::string_view name) {
  return static_cast<std::int64_t>(hash_bytes(0x686F6C64, name.data(), name.size()) & kSumMask);
}

/// Seeds of a column's part, one for each type of value. A NULL is not an empty text.
struct ColumnSeeds {
  explicit ColumnSeeds(std::uint64_t name)
      : integer(mix(name * 8 + SQLITE_INTEGER)),
        text(mix(name * 8 + SQLITE_TEXT)),
        empty_text(mix(text)),
        blob(mix(name * 8 + SQLITE_BLOB)),
        null(mix(name * 8 + SQLITE_NULL)) {}
  std::uint64_t integer, text, empty_text, blob, null;

  std::uint64_t part(std::int64_t value) const {
    return mix(integer ^ static_cast<std::uint64_t>(value));
  }
  std::uint64_t part_text(std::string_view value) const {
    return value.empty() ? empty_text : hash_bytes(text, value.data(), value.size());
  }
  std::uint64_t part_blob(std::string_view value) const {
    return hash_bytes(blob, value.data(), value.size());
  }
  std::uint64_t part_null() const { return null; }
};

}  // namespace holdfast::store
