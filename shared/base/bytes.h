#pragma once
// Little-endian reads that never go past the end, and checked arithmetic on sizes.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
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
  std::size_t offset() const { return offset_; }
  std::size_t remaining() const { return bytes_.size() - offset_; }

  template <class T>
  std::optional<T> read() {
    static_assert(std::is_trivially_copyable_v<T>);
    if (remaining() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }
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

/// Returns true if all of `text` is well-formed UTF-8: no surrogates, no overlong forms.
bool is_valid_utf8(std::string_view text);

}  // namespace holdfast
