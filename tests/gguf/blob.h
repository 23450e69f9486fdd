#pragma once
// Hand-made GGUF bytes: every field can be given a wrong value.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace holdfast::gguf_test {

/// Appends little-endian numbers and strings.
class Blob {
 public:
  template <class T>
  Blob& put(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    bytes_.append(bytes, sizeof(T));
    return *this;
  }
  Blob& u32(std::uint32_t v) { return put(v); }
  Blob& u64(std::uint64_t v) { return put(v); }
  Blob& text(std::string_view v) {
    u64(v.size());
    bytes_.append(v);
    return *this;
  }
  Blob& raw(std::string_view v) {
    bytes_.append(v);
    return *this;
  }
  /// Magic, version, counts.
  Blob& head(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
    return raw("GGUF").u32(version).u64(tensors).u64(keys);
  }
  Blob& key_u32(std::string_view key, std::uint32_t v) { return text(key).u32(4).u32(v); }
  Blob& key_string(std::string_view key, std::string_view v) { return text(key).u32(8).text(v); }
  /// One tensor entry with up to two dimensions.
  Blob& tensor(std::string_view name, std::uint64_t columns, std::uint64_t rows, std::uint32_t type,
               std::uint64_t offset) {
    return text(name).u32(2).u64(columns).u64(rows).u32(type).u64(offset);
  }
  /// Zeros up to a multiple of `alignment`, then `n` bytes of data.
  Blob& data(std::size_t n, std::size_t alignment = 32) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment, '\0');
    bytes_.append(n, '\x11');
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace holdfast::gguf_test
