#pragma once
// GGUF container, versions 2 and 3, little-endian (spec: ggml docs/gguf.md). Every count, length,
// offset, type and alignment is checked before use; memory is bounded by the file's own size.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/result.h"

namespace holdfast::gguf {

// Limits for reading, all far above real models. A file beyond one is refused.
inline constexpr std::uint64_t kMaxKeys = 4096;
inline constexpr std::uint64_t kMaxTensors = 65536;
inline constexpr std::uint64_t kMaxNameBytes = 256;         // of a key or tensor name
inline constexpr std::uint64_t kMaxStringBytes = 1u << 20;  // of one string value
inline constexpr std::uint64_t kMaxAlignment = 4096;

/// Numbers of the format (ggml_type). All types that ggml writes have a name and a size here.
enum class TensorType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  kQ1_0 = 41,
  kQ2_0 = 42,
};

/// The block geometry of a type.
struct TypeTraits {
  std::string_view name;         // "Q4_K"
  std::uint32_t block_elements;  // weights in a block
  std::uint32_t block_bytes;
};
/// Returns nullopt for a number that is no type here.
std::optional<TypeTraits> type_traits(TensorType type);
/// Returns the type of a name, in any case.
std::optional<TensorType> type_from_name(std::string_view name);

/// The types of metadata values, by their numbers in the file.
enum class ValueType : std::uint32_t {
  kU8 = 0,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

/// Returns "u32", "string", …; "type 77" for a number that is no type.
std::string value_type_name(ValueType type);

class MadeBytes;  // made.h

/// A tensor of the file. dims[0] is the contiguous dimension (columns, K); absent dims are 1.
struct TensorInfo {
  std::string name;
  TensorType type = TensorType::kF32;
  std::uint32_t n_dims = 0;
  std::uint64_t dims[4] = {1, 1, 1, 1};
  std::uint64_t offset = 0;         // from the start of the data section
  ByteSpan data;                    // in the mapping; empty for a header-only reader
  const MadeBytes* made = nullptr;  // if set, `data` is readable only while held (made.h)
  std::uint64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

/// A read-only view of one GGUF file or blob. Immutable after open, so safe from any thread. Views
/// (strings, spans) live as long as the File.
class File {
 public:
  /// Maps the file. kIo (missing, unreadable, empty), kFileInvalid (file, field, offset, expected).
  static Result<std::shared_ptr<const File>> open(const std::string& path);
  /// Parses bytes in memory (a tokenizer blob). `name` appears in errors.
  static Result<std::shared_ptr<const File>> from_bytes(std::string bytes, std::string name);
  virtual ~File() = default;

  virtual std::string_view name() const = 0;
  virtual std::uint32_t version() const = 0;
  virtual std::uint64_t file_bytes() const = 0;
  virtual std::uint64_t alignment() const = 0;

  /// Returns the metadata keys in file order.
  virtual const std::vector<std::string>& keys() const = 0;
  virtual bool has(std::string_view key) const = 0;
  virtual std::optional<ValueType> value_type(std::string_view key) const = 0;
  /// Scalars: get_u64 and get_i64 take any integer type that holds the value without loss, and
  /// bools as 0/1. nullopt if the key is absent or has another type.
  virtual std::optional<std::uint64_t> get_u64(std::string_view key) const = 0;
  virtual std::optional<std::int64_t> get_i64(std::string_view key) const = 0;
  virtual std::optional<double> get_f64(std::string_view key) const = 0;  // floats and integers
  virtual std::optional<bool> get_bool(std::string_view key) const = 0;
  virtual std::optional<std::string_view> get_string(std::string_view key) const = 0;
  /// Arrays. nullopt if absent or of another element type.
  virtual std::optional<ValueType> array_type(std::string_view key) const = 0;
  virtual std::uint64_t array_size(std::string_view key) const = 0;  // 0 if no array
  virtual std::optional<std::vector<std::string_view>> get_strings(std::string_view key) const = 0;
  virtual std::optional<std::vector<float>> get_floats(std::string_view key) const = 0;
  virtual std::optional<std::vector<std::int64_t>> get_ints(std::string_view key) const = 0;
  /// Returns the type word and the value as the file stores them, for copying; empty if the key is
  /// absent.
  virtual ByteSpan raw_value(std::string_view key) const = 0;

  virtual const std::vector<TensorInfo>& tensors() const = 0;
  virtual const TensorInfo* tensor(std::string_view name) const = 0;  // nullptr if absent
};

}  // namespace holdfast::gguf
