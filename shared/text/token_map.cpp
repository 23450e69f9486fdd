#include "shared/text/token_map.h"

#include <bit>

#include "shared/base/check.h"

namespace holdfast::text {
namespace {

// Multiply and fold: a good enough spread for open addressing, three instructions a step.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a ^ 0x9E3779B97F4A7C15ULL) *
                       static_cast<unsigned __int128>(b ^ 0xD6E8FEB86659FD93ULL);
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t hash_of(std::string_view key, std::uint64_t head) {
  std::uint64_t hash = mix(head, key.size());
  for (std::size_t at = 8; at < key.size(); at += 8) {
    std::uint64_t part = 0;
    std::memcpy(&part, key.data() + at, key.size() - at < 8 ? key.size() - at : 8);
    hash = mix(hash, part);
  }
  return hash;
}

}  // namespace

TokenMap::TokenMap(std::size_t count) {
  const std::size_t size = std::bit_ceil(count * 3 / 2 + 4);
  slots_.resize(size);
  mask_ = size - 1;
}

bool TokenMap::holds(const Slot& slot, std::string_view key, std::uint64_t head) const {
  if (slot.head != head) return false;
  if (key.size() <= kHeadBytes) return slot.length_or_offset == key.size();
  if (slot.length_or_offset <= kHeadBytes) return false;
  const std::uint32_t* whole = long_.data() + (slot.length_or_offset - kHeadBytes - 1);
  return whole[0] == key.size() && std::memcmp(whole + 1, key.data(), key.size()) == 0;
}

std::size_t TokenMap::slot_for(std::string_view key, std::uint64_t head) const {
  std::size_t at = hash_of(key, head) & mask_;
  while (slots_[at].length_or_offset != 0 && !holds(slots_[at], key, head)) at = (at + 1) & mask_;
  return at;
}

/// Copies a key into `long_` and returns its offset.
std::uint32_t TokenMap::store_key(std::string_view key) {
  const std::size_t at = long_.size(), words = 1 + (key.size() + 3) / 4;
  CHECK(at + words < UINT32_MAX - kHeadBytes && key.size() <= UINT32_MAX);
  long_.resize(at + words);
  long_[at] = static_cast<std::uint32_t>(key.size());
  std::memcpy(long_.data() + at + 1, key.data(), key.size());
  return static_cast<std::uint32_t>(at + kHeadBytes + 1);
}

bool TokenMap::insert(std::string_view key, std::int32_t id) {
  CHECK(!key.empty() && used_ + 1 < slots_.size());
  const std::uint64_t head = head_of(key);
  Slot& slot = slots_[slot_for(key, head)];
  if (slot.length_or_offset != 0) return false;
  const bool fits = key.size() <= kHeadBytes;
  slot = {head, fits ? static_cast<std::uint32_t>(key.size()) : store_key(key), id};
  ++used_;
  if (key.size() > longest_) longest_ = key.size();
  return true;
}

std::int32_t TokenMap::find(std::string_view key) const {
  if (key.empty() || key.size() > longest_) return -1;
  return slots_[slot_for(key, head_of(key))].id;
}

void TokenMap::fetch(std::string_view key) const {
  if (key.empty() || key.size() > longest_) return;
  __builtin_prefetch(&slots_[hash_of(key, head_of(key)) & mask_]);
}

}  // namespace holdfast::text
