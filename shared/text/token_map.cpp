#include "shared/text/token_map.h"

#include <bit>

#include "shared/base/check.h"

namespace holdfast::text {
namespace {

// Multiply and fold: good enough spread for open addressing, three instructions a step.
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

std::size_t TokenMap::slot_for(std::string_view key, std::uint64_t head) const {
  std::size_t at = hash_of(key, head) & mask_;
  for (;; at = (at + 1) & mask_) {
    const Slot& slot = slots_[at];
    if (slot.length == 0) return at;
    if (slot.head != head || slot.length != key.size()) continue;
    if (key.size() <= 8) return at;
    if (std::memcmp(blob_.data() + slot.offset, key.data(), key.size()) == 0) return at;
  }
}

bool TokenMap::insert(std::string_view key, std::int32_t id) {
  CHECK(!key.empty() && used_ + 1 < slots_.size());
  const std::uint64_t head = head_of(key);
  Slot& slot = slots_[slot_for(key, head)];
  if (slot.length != 0) return false;
  slot = {head, static_cast<std::uint32_t>(key.size()), id, blob_.size()};
  blob_.append(key);
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
