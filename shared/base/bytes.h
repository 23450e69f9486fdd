#pragma once
// Little-endian reads that never go past the end, checked arithmetic on sizes, and well-formed
// UTF-8.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace holdfast {

using ByteSpan = std::span<const std::byte>;

/// Returns a * b or a + b, or nullopt on overflow. Used for every size that a file or a peer names.
inline std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) {
  std::uint64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}
inline std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

/// A cursor over bytes that it does not own. A read past the end returns nullopt and moves nothing.
class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : bytes_(bytes) {}
  /// The bytes read so far, and those that are left.
  std::size_t offset() const { return offset_; }
  std::size_t remaining() const { return bytes_.size() - offset_; }

  /// Reads a T as it is in memory; nullopt if fewer bytes are left than it has.
  template <class T>
  std::optional<T> read() {
    static_assert(std::is_trivially_copyable_v<T>);
    if (remaining() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }
  /// Returns the next n bytes, a view of the reader's; nullopt if fewer are left.
  std::optional<ByteSpan> read_bytes(std::size_t n) {
    if (remaining() < n) return std::nullopt;
    const ByteSpan out = bytes_.subspan(offset_, n);
    offset_ += n;
    return out;
  }

 private:
  ByteSpan bytes_;
  std::size_t offset_ = 0;
};

/// Returns the bytes in lower-case hexadecimal.
std::string to_hex(ByteSpan bytes);

/// Tells how a UTF-8 sequence goes on after its first byte (Unicode 15, table 3-7).
struct Utf8Lead {
  std::uint8_t length = 0;  // of the sequence; 0 if none begins so
  // The bounds of the second byte. They alone refuse overlong forms, surrogates and values past
  // U+10FFFF.
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
};

/// Returns what a first byte says about the bytes after it; length 0: no character begins so.
inline Utf8Lead utf8_lead(unsigned char lead) {
  if (lead < 0x80) return {1};
  if (lead < 0xC2 || lead > 0xF4) return {0};
  switch (lead) {
    case 0xE0:
      return {3, 0xA0, 0xBF};
    case 0xED:
      return {3, 0x80, 0x9F};
    case 0xF0:
      return {4, 0x90, 0xBF};
    case 0xF4:
      return {4, 0x80, 0x8F};
    default:
      return {static_cast<std::uint8_t>(lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4)};
  }
}

/// Returns the length of the well-formed UTF-8 sequence at the start of `text` (1..4); 0 if there
/// is none.
inline std::uint32_t utf8_length_at(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const Utf8Lead lead = utf8_lead(byte(0));
  if (lead.length < 2) return lead.length;
  if (text.size() < lead.length || byte(1) < lead.low || byte(1) > lead.high) return 0;
  for (std::uint32_t i = 2; i < lead.length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return lead.length;
}

/// Returns true if all of `text` is well-formed UTF-8: no surrogates, no overlong forms.
bool is_valid_utf8(std::string_view text);

}  // namespace holdfast
