#pragma once
// The header of a GGUF file as a checked index into its bytes. Internal to shared/gguf.

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shared/gguf/gguf.h"

namespace holdfast::gguf {

/// A metadata value. `payload` is a scalar's bytes, a string's text or an array's elements, all of
/// them checked when the file was opened.
struct Value {
  ValueType type = ValueType::kU8;
  ValueType element = ValueType::kU8;  // of an array
  std::uint64_t count = 0;             // of an array
  ByteSpan payload;
  ByteSpan raw;  // type word and value
};

/// The metadata and the tensors of a checked header.
struct Header {
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::vector<std::string> keys;
  std::unordered_map<std::string_view, Value> values;  // keyed by views into the file's bytes
  std::vector<TensorInfo> tensors;
  std::unordered_map<std::string_view, std::size_t> tensor_index;  // views into `tensors`
};

/// Returns the bytes of a scalar; 0 for strings, arrays and numbers that are no type.
std::uint64_t scalar_bytes(ValueType type);
/// Returns `text` between double quotes, at most 64 bytes of it, with everything unprintable
/// escaped, so that a hostile name cannot break a log line or a terminal.
std::string quoted(std::string_view text);

/// Checks the whole header and the location of every tensor. The header refers to `bytes`, which
/// must outlive it. kFileInvalid or kUnsupported (version 1, big-endian, newer).
Result<Header> parse_header(ByteSpan bytes, std::string_view name);

}  // namespace holdfast::gguf
