#include "shared/text/charsmap.h"

#include <cstring>

namespace holdfast::text {
namespace {

// A unit: bits 0-7 label (in a leaf bits 0-30 are its value), bit 8 a leaf follows, bit 9 the
// offset's scale, bits 10-30 the offset to the children, bit 31 set: a leaf.
bool has_leaf(std::uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
std::uint32_t offset_of(std::uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200) >> 6);
}

}  // namespace

Result<Charsmap> Charsmap::parse(std::string blob) {
  const auto invalid = [](const char* why) {
    return Error{Errc::kFileInvalid, std::string("load tokenizer: precompiled_charsmap ") + why +
                                         "; the file is damaged or was badly converted"};
  };
  Charsmap out;
  if (blob.empty()) return out;
  std::uint32_t bytes = 0;
  if (blob.size() < sizeof bytes) return invalid("has fewer than 4 bytes");
  std::memcpy(&bytes, blob.data(), sizeof bytes);
  if (bytes % 4 != 0 || bytes == 0 || bytes > blob.size() - sizeof bytes) {
    return invalid("says that its trie is larger than itself");
  }
  out.units_.resize(bytes / 4);
  std::memcpy(out.units_.data(), blob.data() + sizeof bytes, bytes);
  out.texts_ = sizeof bytes + bytes;
  out.blob_ = std::move(blob);
  return out;
}

Charsmap::Found Charsmap::find(std::string_view text) const {
  Found best;
  if (units_.empty()) return best;
  std::size_t at = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    at ^= byte;
    if (at >= units_.size()) break;
    const std::uint32_t unit = units_[at];
    if ((unit & 0x800000FFU) != byte) break;
    at ^= offset_of(unit);
    if (at >= units_.size()) break;
    if (!has_leaf(unit)) continue;
    const std::size_t offset = texts_ + (units_[at] & 0x7FFFFFFFU);
    if (offset >= blob_.size()) break;
    const std::string_view rest = std::string_view(blob_).substr(offset);
    best = {i + 1, rest.substr(0, rest.find('\0'))};
  }
  return best;
}

}  // namespace holdfast::text
