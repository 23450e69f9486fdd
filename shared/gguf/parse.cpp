#include "shared/gguf/parse.h"

#include <algorithm>
#include <bit>

#include "shared/gguf/lookalike.h"
#include "shared/gguf/quants.h"

namespace holdfast::gguf {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::string_view kSafetensors =
    "this is a safetensors file: name its folder, which has config.json in it too";
constexpr std::uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;         // name length, name, type, a byte
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;  // n_dims may be 0: a scalar

std::string_view as_text(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Parser {
 public:
  Parser(ByteSpan bytes, std::string_view name) : reader_(bytes), bytes_(bytes), name_(name) {}

  Result<Header> run() {
    HOLDFAST_CHECKED(read_preamble());
    for (std::uint64_t i = 0; i < n_keys_; ++i) HOLDFAST_CHECKED(read_key(i));
    HOLDFAST_CHECKED(read_alignment());
    header_.tensors.reserve(n_tensors_);
    for (std::uint64_t i = 0; i < n_tensors_; ++i) HOLDFAST_CHECKED(read_tensor(i));
    HOLDFAST_CHECKED(locate_tensors());
    return std::move(header_);
  }

 private:
  Error fail(Errc code, const std::string& what) const {
    return Error{code, "open model " + name_ + ": " + what};
  }
  Error invalid(const std::string& what) const { return fail(Errc::kFileInvalid, what); }
  Error invalid_at(std::uint64_t offset, const std::string& where, const std::string& what) const {
    return invalid(where + " at offset " + std::to_string(offset) + ": " + what);
  }
  Error ends_early(std::uint64_t offset, const std::string& where) const {
    return invalid_at(offset, where,
                      "the file ends inside it, at byte " + std::to_string(bytes_.size()) +
                          "; it is truncated or damaged");
  }

  Result<void> read_preamble() {
    const auto magic = reader_.read<std::uint32_t>();
    if (!magic || *magic != kMagic) return bad_magic(!magic);
    const auto version = reader_.read<std::uint32_t>();
    if (!version) return ends_early(4, "version");
    HOLDFAST_CHECKED(check_version(*version));
    header_.version = *version;
    const auto n_tensors = reader_.read<std::uint64_t>();
    if (!n_tensors) return ends_early(8, "tensor count");
    const auto n_keys = reader_.read<std::uint64_t>();
    if (!n_keys) return ends_early(16, "key count");
    HOLDFAST_CHECKED(check_count("tensor count", 8, *n_tensors, kMaxTensors, kMinTensorBytes));
    HOLDFAST_CHECKED(check_count("key count", 16, *n_keys, kMaxKeys, kMinKeyBytes));
    n_tensors_ = *n_tensors;
    n_keys_ = *n_keys;
    return {};
  }

  /// Says what the file is instead. The message does not quote its bytes: the caller may not be
  /// allowed to read this file.
  Error bad_magic(bool too_short) const {
    std::string_view other = lookalike(bytes_);
    if (other.empty() && looks_like_safetensors(bytes_)) other = kSafetensors;
    return invalid_at(
        0, "magic",
        std::string("expected the four bytes \"GGUF\"") +
            (too_short ? ", found only " + std::to_string(bytes_.size()) + " bytes" : "") + "; " +
            std::string(other.empty() ? "this is not a GGUF file" : other));
  }

  Result<void> check_version(std::uint32_t version) const {
    if (version == 2 || version == 3) return {};
    const std::string where = "version at offset 4: ";
    if (version == 0) return invalid(where + "0, expected 2 or 3; the file is damaged");
    const std::uint32_t swapped = __builtin_bswap32(version);
    if (swapped <= 255) {
      return fail(Errc::kUnsupported, where + std::to_string(swapped) +
                                          " in big-endian order, expected a little-endian file; "
                                          "convert it");
    }
    return fail(Errc::kUnsupported, where + std::to_string(version) + ", expected 2 or 3" +
                                        (version == 1 ? "; convert it with a newer tool" : ""));
  }

  Result<void> check_count(const char* field, std::uint64_t offset, std::uint64_t count,
                           std::uint64_t most, std::uint64_t least_bytes) const {
    if (count > most) {
      return invalid_at(offset, field,
                        std::to_string(count) + " is beyond the limit of " + std::to_string(most));
    }
    if (count * least_bytes > reader_.remaining()) {
      return invalid_at(offset, field,
                        std::to_string(count) + " do not fit into the " +
                            std::to_string(reader_.remaining()) +
                            " bytes that follow; the file is truncated or damaged");
    }
    return {};
  }

  /// Reads a length and that many bytes. The length is compared with the limit and with the rest of
  /// the file before anything is taken.
  Result<std::string_view> read_string(const std::string& where, std::uint64_t limit) {
    const std::uint64_t at = reader_.offset();
    const auto length = reader_.read<std::uint64_t>();
    if (!length) return ends_early(at, where);
    if (*length > limit) {
      return invalid_at(at, where,
                        "length " + std::to_string(*length) + " is beyond the limit of " +
                            std::to_string(limit) + " bytes");
    }
    const auto text = reader_.read_bytes(*length);
    if (!text) {
      return invalid_at(at, where,
                        "length " + std::to_string(*length) + " is beyond the " +
                            std::to_string(reader_.remaining()) +
                            " bytes that follow; the file is truncated or damaged");
    }
    return as_text(*text);
  }

  Result<void> read_key(std::uint64_t i) {
    const std::uint64_t at = reader_.offset();
    const std::string nth = "key " + std::to_string(i + 1) + " of " + std::to_string(n_keys_);
    HOLDFAST_TRY(const std::string_view key, read_string(nth, kMaxNameBytes));
    if (key.empty()) return invalid_at(at, nth, "the name is empty");
    const std::string where = "key " + quoted(key);
    const std::uint64_t value_at = reader_.offset();
    const auto type = reader_.read<std::uint32_t>();
    if (!type) return ends_early(value_at, where);
    Value value;
    value.type = static_cast<ValueType>(*type);
    HOLDFAST_CHECKED(read_value(where, value));
    value.raw = bytes_.subspan(value_at, reader_.offset() - value_at);
    if (!header_.values.emplace(key, value).second) {
      return invalid_at(at, where, "is there twice; each key may be there once");
    }
    header_.keys.emplace_back(key);
    return {};
  }

  Result<void> read_value(const std::string& where, Value& value) {
    const std::uint64_t at = reader_.offset();
    if (value.type == ValueType::kString) {
      HOLDFAST_TRY(const std::string_view text, read_string(where, kMaxStringBytes));
      value.payload = std::as_bytes(std::span(text.data(), text.size()));
      return {};
    }
    if (value.type == ValueType::kArray) return read_array(where, value);
    const std::uint64_t size = scalar_bytes(value.type);
    if (size == 0) {
      return invalid_at(at - 4, where,
                        "value type " + std::to_string(static_cast<std::uint32_t>(value.type)) +
                            " is unknown, expected 0 to 12");
    }
    const auto payload = reader_.read_bytes(size);
    if (!payload) return ends_early(at, where);
    value.payload = *payload;
    if (value.type == ValueType::kBool) return check_bools(where, at, value.payload);
    return {};
  }

  Result<void> read_strings(const std::string& where, Value& value) {
    const std::uint64_t start = reader_.offset();
    for (std::uint64_t i = 0; i < value.count; ++i) HOLDFAST_CHECKED(skip_string(where, i));
    value.payload = bytes_.subspan(start, reader_.offset() - start);
    return {};
  }

  Result<void> read_array(const std::string& where, Value& value) {
    const std::uint64_t at = reader_.offset();
    const auto element = reader_.read<std::uint32_t>();
    const auto count = element ? reader_.read<std::uint64_t>() : std::nullopt;
    if (!count) return ends_early(at, where);
    value.element = static_cast<ValueType>(*element);
    value.count = *count;
    if (value.element == ValueType::kArray) {
      return fail(Errc::kFileInvalid, where + " at offset " + std::to_string(at) +
                                          ": an array of arrays, expected an array of scalars or "
                                          "strings");
    }
    const bool strings = value.element == ValueType::kString;
    const std::uint64_t size = strings ? 8 : scalar_bytes(value.element);
    if (size == 0) {
      return invalid_at(at, where,
                        "array element type " + std::to_string(*element) + " is unknown");
    }
    const auto least = checked_mul(*count, size);
    if (!least || *least > reader_.remaining()) {
      return invalid_at(at, where,
                        "array of " + std::to_string(*count) + " x " +
                            value_type_name(value.element) + " is beyond the " +
                            std::to_string(reader_.remaining()) +
                            " bytes that follow; the file is truncated or damaged");
    }
    if (!strings) {
      const std::uint64_t start = reader_.offset();
      const auto payload = reader_.read_bytes(*least);
      CHECK(payload.has_value());
      value.payload = *payload;
      const bool bools = value.element == ValueType::kBool;
      return bools ? check_bools(where, start, value.payload) : Result<void>();
    }
    return read_strings(where, value);
  }

  /// Reads a string like read_string, but builds the text of an error only when there is one:
  /// vocabularies have hundreds of thousands of strings.
  Result<void> skip_string(const std::string& where, std::uint64_t i) {
    ByteReader ahead = reader_;
    const auto length = ahead.read<std::uint64_t>();
    if (length && *length <= kMaxStringBytes && ahead.read_bytes(*length)) {
      reader_ = ahead;
      return {};
    }
    auto text = read_string(where + ", array element " + std::to_string(i), kMaxStringBytes);
    CHECK(!text.has_value());
    return text.error();
  }

  Result<void> check_bools(const std::string& where, std::uint64_t at, ByteSpan bools) const {
    for (std::size_t i = 0; i < bools.size(); ++i) {
      if (std::to_integer<unsigned>(bools[i]) > 1) {
        return invalid_at(
            at + i, where,
            "bool is " + std::to_string(std::to_integer<unsigned>(bools[i])) + ", expected 0 or 1");
      }
    }
    return {};
  }

  Result<void> read_alignment() {
    const auto found = header_.values.find("general.alignment");
    if (found == header_.values.end()) return {};
    const Value& value = found->second;
    const std::uint64_t at = static_cast<std::uint64_t>(value.raw.data() - bytes_.data());
    if (value.type != ValueType::kU32) {
      return invalid_at(at, "key \"general.alignment\"",
                        "has type " + value_type_name(value.type) + ", expected u32");
    }
    std::uint32_t alignment = 0;
    std::memcpy(&alignment, value.payload.data(), sizeof alignment);
    if (!std::has_single_bit(alignment) || alignment < 8 || alignment > kMaxAlignment) {
      return invalid_at(at, "key \"general.alignment\"",
                        "is " + std::to_string(alignment) + ", expected a power of two from 8 to " +
                            std::to_string(kMaxAlignment));
    }
    header_.alignment = alignment;
    return {};
  }

  Result<void> read_tensor(std::uint64_t i) {
    const std::uint64_t at = reader_.offset();
    const std::string nth = "tensor " + std::to_string(i + 1) + " of " + std::to_string(n_tensors_);
    HOLDFAST_TRY(const std::string_view name, read_string(nth, kMaxNameBytes));
    if (name.empty()) return invalid_at(at, nth, "the name is empty");
    TensorInfo tensor;
    tensor.name = std::string(name);
    const std::string where = describe(tensor.name);
    const auto n_dims = reader_.read<std::uint32_t>();
    if (!n_dims) return ends_early(at, where);
    if (*n_dims > 4) {
      return invalid_at(at, where, std::to_string(*n_dims) + " dimensions, expected at most 4");
    }
    tensor.n_dims = *n_dims;
    for (std::uint32_t d = 0; d < *n_dims; ++d) {
      const auto dim = reader_.read<std::uint64_t>();
      if (!dim) return ends_early(at, where);
      tensor.dims[d] = *dim;
    }
    const auto type = reader_.read<std::uint32_t>();
    const auto offset = type ? reader_.read<std::uint64_t>() : std::nullopt;
    if (!offset) return ends_early(at, where);
    tensor.type = static_cast<TensorType>(*type);
    tensor.offset = *offset;
    header_offsets_.push_back(at);
    HOLDFAST_TRY(const std::uint64_t size, size_of(tensor, at));
    sizes_.push_back(size);
    header_.tensors.push_back(std::move(tensor));
    return {};
  }

  static std::string describe(std::string_view tensor) { return "tensor " + quoted(tensor); }

  static std::string shape_of(const TensorInfo& tensor) {
    std::string shape;
    for (std::uint32_t d = 0; d < tensor.n_dims; ++d) {
      shape += (d ? " x " : "") + std::to_string(tensor.dims[d]);
    }
    return shape;
  }

  /// Returns the bytes of a tensor; nullopt if they or its elements overflow 64 bits. Elements are
  /// checked besides bytes: blocks hold several, so their count overflows earlier.
  static std::optional<std::uint64_t> bytes_of(const TensorInfo& tensor) {
    std::optional<std::uint64_t> bytes = row_bytes(tensor.type, tensor.dims[0]);
    std::optional<std::uint64_t> elements = tensor.dims[0];
    for (int d = 1; d < 4; ++d) {
      if (bytes) bytes = checked_mul(*bytes, tensor.dims[d]);
      if (elements) elements = checked_mul(*elements, tensor.dims[d]);
    }
    return elements ? bytes : std::nullopt;
  }

  Result<std::uint64_t> size_of(const TensorInfo& tensor, std::uint64_t at) const {
    const std::string where = describe(tensor.name);
    const auto traits = type_traits(tensor.type);
    if (!traits) {
      return invalid_at(at, where,
                        "type " + std::to_string(static_cast<std::uint32_t>(tensor.type)) +
                            " is no tensor type that we know; the file is damaged or newer than "
                            "this program");
    }
    for (const std::uint64_t dim : tensor.dims) {
      if (dim != 0) continue;
      return invalid_at(at, where, "shape " + shape_of(tensor) + " has a dimension of 0");
    }
    if (tensor.dims[0] % traits->block_elements != 0) {
      return invalid_at(at, where,
                        "rows of " + std::to_string(tensor.dims[0]) + " elements, expected a " +
                            "multiple of " + std::to_string(traits->block_elements) + " for " +
                            std::string(traits->name));
    }
    const std::optional<std::uint64_t> bytes = bytes_of(tensor);
    if (!bytes) {
      return invalid_at(at, where, "shape " + shape_of(tensor) + " overflows 64 bits");
    }
    return *bytes;
  }

  Result<void> locate_tensors() {
    if (header_.tensors.empty()) return {};
    const std::uint64_t align = header_.alignment;
    const std::uint64_t start = (reader_.offset() + align - 1) / align * align;
    for (std::size_t i = 0; i < header_.tensors.size(); ++i) {
      TensorInfo& tensor = header_.tensors[i];
      const std::uint64_t at = header_offsets_[i];
      const std::string where = describe(tensor.name);
      if (tensor.offset % align != 0) {
        return invalid_at(at, where,
                          "data offset " + std::to_string(tensor.offset) +
                              " is not a multiple of the alignment " + std::to_string(align));
      }
      const auto begin = checked_add(start, tensor.offset);
      const auto end = begin ? checked_add(*begin, sizes_[i]) : std::nullopt;
      if (!end || *end > bytes_.size()) {
        return invalid_at(
            at, where,
            "data offset " + std::to_string(tensor.offset) + " + " + std::to_string(sizes_[i]) +
                " bytes, counted from byte " + std::to_string(start) + ", is beyond the file's " +
                std::to_string(bytes_.size()) + " bytes; the file is truncated or damaged");
      }
      tensor.data = bytes_.subspan(*begin, sizes_[i]);
      if (!header_.tensor_index.emplace(tensor.name, i).second) {
        return invalid_at(at, where, "is there twice; each tensor may be there once");
      }
    }
    return check_disjoint();
  }

  Result<void> check_disjoint() const {
    const std::vector<TensorInfo>& tensors = header_.tensors;
    std::vector<std::size_t> order(tensors.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return tensors[a].offset < tensors[b].offset; });
    for (std::size_t k = 1; k < order.size(); ++k) {
      const TensorInfo& before = tensors[order[k - 1]];
      const TensorInfo& after = tensors[order[k]];
      if (after.offset < before.offset + before.data.size()) {
        return invalid_at(header_offsets_[order[k]], describe(after.name),
                          "its data at " + std::to_string(after.offset) + " overlaps the data of " +
                              describe(before.name) + ", which ends at " +
                              std::to_string(before.offset + before.data.size()));
      }
    }
    return {};
  }

  ByteReader reader_;
  ByteSpan bytes_;
  std::string name_;
  Header header_;
  std::uint64_t n_tensors_ = 0;
  std::uint64_t n_keys_ = 0;
  std::vector<std::uint64_t> header_offsets_;  // of each tensor's entry, for errors
  std::vector<std::uint64_t> sizes_;
};

}  // namespace

std::uint64_t scalar_bytes(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
      return 8;
    case ValueType::kString:
    case ValueType::kArray:
      return 0;
  }
  return 0;
}

std::string value_type_name(ValueType type) {
  static constexpr const char* kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                           "bool", "string", "array", "u64", "i64", "f64"};
  const auto number = static_cast<std::uint32_t>(type);
  if (number >= std::size(kNames)) return "type " + std::to_string(number);
  return kNames[number];
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kMost = 64;
  std::string out = "\"";
  for (const char c : text.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      const std::byte raw{byte};
      out += "\\x" + to_hex(ByteSpan(&raw, 1));
    } else {
      out += c;
    }
  }
  return out + (text.size() > kMost ? "…\"" : "\"");
}

Result<Header> parse_header(ByteSpan bytes, std::string_view name) {
  return Parser(bytes, name).run();
}

}  // namespace holdfast::gguf
