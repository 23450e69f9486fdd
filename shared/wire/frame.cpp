#include "shared/wire/frame.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "shared/wire/cbor.h"
#include "shared/wire/fields.h"

namespace holdfast::wire {
namespace {

constexpr char kMagic[4] = {'H', 'F', 'S', 'T'};
// Bounds the memory of small frames: an element of these arrays can be one byte long but takes up
// to two hundred in a struct. Far above the arrays of any real message.
constexpr std::uint64_t kStructsMax = 65'536;

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
constexpr bool kIsNumber = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T>
constexpr bool kCanBeEmpty = IsVector<T>::value || std::is_same_v<T, std::string>;
template <class T>
constexpr bool kIsText = std::is_same_v<T, Errc> || std::is_same_v<T, std::string>;

// ---------------------------------------------------------------- writing

/// Returns false for empty text, bytes, arrays and absent optionals, which are left out of the map:
/// they are every reader's default.
template <class T>
bool is_written(const T& value) {
  if constexpr (IsOptional<T>::value) {
    return value.has_value();
  } else if constexpr (kCanBeEmpty<T>) {
    return !value.empty();
  } else {
    return true;
  }
}

struct CountFields {
  std::uint64_t n = 0;
  template <class T>
  void operator()(std::string_view, const T& value) {
    n += is_written(value) ? 1 : 0;
  }
  template <class T>
  void blob(std::string_view, const T& value) {
    n += is_written(value) ? 1 : 0;
  }
};

template <class T>
void write_value(CborWriter& out, const T& value);

struct WriteFields {
  CborWriter& out;
  template <class T>
  void operator()(std::string_view name, const T& value) {
    if (!is_written(value)) return;
    out.put_key(name);
    write_value(out, value);
  }
  void blob(std::string_view name, const std::string& value) {
    if (value.empty()) return;
    out.put_key(name);
    out.put_bytes(value);
  }
  void blob(std::string_view name, const std::optional<std::string>& value) {
    if (!value.has_value()) return;
    out.put_key(name);
    out.put_bytes(*value);
  }
};

template <class T>
void write_number(CborWriter& out, T value) {
  if constexpr (std::is_same_v<T, bool>) {
    out.put_bool(value);
  } else if constexpr (std::is_enum_v<T>) {
    out.put_uint(static_cast<std::uint64_t>(value));
  } else if constexpr (std::is_same_v<T, float>) {
    out.put_float(value);
  } else if constexpr (std::is_same_v<T, double>) {
    out.put_double(value);
  } else if constexpr (std::is_unsigned_v<T>) {
    out.put_uint(value);
  } else {
    out.put_int(value);
  }
}

template <class T>
void write_value(CborWriter& out, const T& value) {
  if constexpr (std::is_same_v<T, Errc>) {
    out.put_text(errc_name(value));
  } else if constexpr (kIsNumber<T>) {
    write_number(out, value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    out.put_text(value);
  } else if constexpr (IsOptional<T>::value) {
    write_value(out, *value);
  } else if constexpr (IsVector<T>::value) {
    out.put_array(value.size());
    for (const auto& element : value) write_value(out, element);
  } else {
    CountFields count;
    fields(count, value);
    out.put_map(count.n);
    WriteFields write{out};
    fields(write, value);
  }
}

// ---------------------------------------------------------------- reading

template <class T>
bool read_value(CborReader& in, T& value);

/// Visits the fields of a struct until the one with the name `key`, and reads that.
struct ReadField {
  CborReader& in;
  std::string_view key;
  int index = 0;
  int found = -1;

  bool is_next(std::string_view name) {
    const int i = index++;
    if (found >= 0 || name.size() != key.size()) return false;
    if (name.back() != key.back()) return false;  // avoids most calls below
    if (std::memcmp(name.data(), key.data(), key.size()) != 0) return false;
    found = i;
    return true;
  }
  template <class T>
  void operator()(std::string_view name, T& value) {
    if (is_next(name)) read_value(in, value);
  }
  void blob(std::string_view name, std::string& value) {
    if (is_next(name)) read_bytes(value);
  }
  void blob(std::string_view name, std::optional<std::string>& value) {
    if (is_next(name) && !in.take_null()) read_bytes(value.emplace());
  }
  void read_bytes(std::string& value) {
    std::string_view bytes;
    if (in.read_blob(bytes)) value.assign(bytes);
  }
};

/// Reads a struct. Unknown keys (of a newer peer) are skipped, a duplicate key is refused.
template <class T>
bool read_struct(CborReader& in, T& value) {
  std::uint64_t n = 0;
  if (!in.read_map(n)) return false;
  std::uint64_t present = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    ReadField field{in, {}};
    if (!in.read_key(field.key)) return false;
    fields(field, value);
    if (field.found < 0) {
      in.skip(2);
    } else {
      const std::uint64_t bit = 1ULL << field.found;
      if ((present & bit) != 0) in.fail("a key that comes twice");
      present |= bit;
    }
    if (!in.ok()) return false;
  }
  return true;
}

template <class T>
bool read_integer(CborReader& in, T& value) {
  if constexpr (std::is_unsigned_v<T>) {
    std::uint64_t wide = 0;
    if (!in.read_uint(wide)) return false;
    if (wide > std::numeric_limits<T>::max()) return in.fail("an integer out of range");
    value = static_cast<T>(wide);
  } else {
    std::int64_t wide = 0;
    if (!in.read_int(wide)) return false;
    if (wide < std::numeric_limits<T>::min() || wide > std::numeric_limits<T>::max()) {
      return in.fail("an integer out of range");
    }
    value = static_cast<T>(wide);
  }
  return true;
}

template <class T>
bool read_vector(CborReader& in, std::vector<T>& value) {
  std::uint64_t n = 0;
  if (!in.read_array(n)) return false;
  if (!kIsNumber<T> && n > kStructsMax) return in.fail("an array of more than 65536 elements");
  if constexpr (kIsNumber<T>) value.reserve(n);  // n <= remaining bytes
  for (std::uint64_t i = 0; i < n; ++i) {
    if (!read_value(in, value.emplace_back())) return false;
  }
  return true;
}

bool read_code(CborReader& in, Errc& value) {
  std::string_view name;
  if (!in.read_text(name)) return false;
  value = errc_from_name(name);
  return true;
}

bool read_string(CborReader& in, std::string& value) {
  std::string_view text;
  if (!in.read_text(text)) return false;
  value.assign(text);
  return true;
}

template <class T>
bool read_enum(CborReader& in, T& value) {
  std::uint64_t number = 0;
  if (!in.read_uint(number)) return false;
  if (number > static_cast<std::uint64_t>(EnumMax<T>::value)) return in.fail("an unknown number");
  value = static_cast<T>(number);
  return true;
}

template <class T>
bool read_real(CborReader& in, T& value) {
  double wide = 0;
  if (!in.read_double(wide)) return false;
  if (wide > std::numeric_limits<T>::max() || wide < std::numeric_limits<T>::lowest()) {
    return in.fail("a number out of range");
  }
  value = static_cast<T>(wide);
  return true;
}

template <class T>
bool read_value(CborReader& in, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return in.read_bool(value);
  } else if constexpr (std::is_same_v<T, Errc>) {
    return read_code(in, value);
  } else if constexpr (std::is_enum_v<T>) {
    return read_enum(in, value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return read_real(in, value);
  } else if constexpr (std::is_integral_v<T>) {
    return read_integer(in, value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return read_string(in, value);
  } else if constexpr (IsOptional<T>::value) {
    return in.take_null() || read_value(in, value.emplace());
  } else if constexpr (IsVector<T>::value) {
    return read_vector(in, value);
  } else {
    return read_struct(in, value);
  }
}

template <class T>
bool read_message(CborReader& in, Message& out) {
  return read_struct(in, out.emplace<T>());
}

struct TypeEntry {
  std::uint16_t number;
  std::string_view name;
  bool (*read)(CborReader&, Message&);
};

template <class T>
struct TypeTable;
template <class... T>
struct TypeTable<std::variant<T...>> {
  static constexpr std::array<TypeEntry, sizeof...(T)> kEntries{
      TypeEntry{MessageType<T>::kNumber, MessageType<T>::kName, &read_message<T>}...};
};
constexpr const auto& kTypes = TypeTable<Message>::kEntries;

void put_little_endian(char* at, std::uint64_t v, int bytes) {
  for (int i = 0; i < bytes; ++i) at[i] = static_cast<char>(v >> (8 * i));
}

std::uint32_t get_little_endian(std::string_view at, int bytes) {
  std::uint32_t v = 0;
  for (int i = 0; i < bytes; ++i) {
    v |= static_cast<std::uint32_t>(static_cast<unsigned char>(at[i])) << (8 * i);
  }
  return v;
}

Error malformed(std::string what) {
  return {Errc::kInvalidRequest, "message: " + std::move(what)};
}

std::size_t size_hint(const Message& message) {
  if (const auto* tokens = std::get_if<Tokens>(&message)) return 64 + 160 * tokens->events.size();
  if (const auto* dispatch = std::get_if<Dispatch>(&message)) {
    return 1024 + 4 * (dispatch->prompt_ids.size() + dispatch->committed_ids.size());
  }
  return 256;
}

}  // namespace

std::string_view message_name(const Message& message) {
  return kTypes[message.index()].name;
}

namespace {

std::string with_header(std::string frame, std::uint16_t type) {
  const std::size_t length = frame.size() - kHeaderBytes;
  CHECK_MSG(length <= UINT32_MAX, "a message of more than 4 GiB");
  std::memcpy(frame.data(), kMagic, sizeof(kMagic));
  put_little_endian(frame.data() + 4, kVersion, 2);
  put_little_endian(frame.data() + 6, type, 2);
  put_little_endian(frame.data() + 8, length, 4);
  put_little_endian(frame.data() + 12, 0, 4);
  return frame;
}

/// Finds values that a reader would refuse. Strings are not checked: put_text repairs them.
struct CheckFields {
  std::string_view wrong;  // the field, empty = none

  void require(bool is_right, std::string_view name) {
    if (!is_right && wrong.empty()) wrong = name;
  }
  template <class T>
  void operator()(std::string_view name, const T& value) {
    if constexpr (kIsText<T>) {
      return;
    } else if constexpr (std::is_enum_v<T>) {
      require(value <= EnumMax<T>::value, name);
    } else if constexpr (std::is_floating_point_v<T>) {
      require(std::isfinite(value), name);
    } else if constexpr (std::is_arithmetic_v<T>) {
      return;
    } else if constexpr (IsOptional<T>::value) {
      if (value.has_value()) (*this)(name, *value);
    } else if constexpr (IsVector<T>::value) {
      check_elements(name, value);
    } else {
      fields(*this, value);
    }
  }
  template <class T>
  void check_elements(std::string_view name, const T& value) {
    if constexpr (!kIsNumber<typename T::value_type>) {
      require(value.size() <= kStructsMax, name);
      for (const auto& element : value) (*this)(name, element);
    }
  }
  template <class T>
  void blob(std::string_view, const T&) {}
};

}  // namespace

std::string encode(const Message& message) {
  CborWriter out(size_hint(message));
  out.out().resize(kHeaderBytes);
  std::visit([&](const auto& m) { write_value(out, m); }, message);
  return with_header(std::move(out.out()), kTypes[message.index()].number);
}

std::string encode(const Submit& submit) {
  std::size_t bytes = 512 + submit.meta.size() + submit.sampling.extra.size();
  for (const Prompt& prompt : submit.prompts) {
    bytes += 64 + (prompt.ids ? 4 * prompt.ids->size() : 0) +
             (prompt.text ? prompt.text->size() : 0) +
             (prompt.messages_json ? prompt.messages_json->size() : 0);
  }
  CborWriter out(bytes);
  out.out().resize(kHeaderBytes);
  write_value(out, submit);
  return with_header(std::move(out.out()), MessageType<Submit>::kNumber);
}

Result<void> check_encodable(const Submit& submit) {
  CheckFields check;
  fields(check, submit);
  if (check.wrong.empty()) return {};
  return malformed(std::string(check.wrong) +
                   ": not a finite number, not a known value, or more "
                   "than 65536 elements");
}

namespace {

Result<void> check_header(std::string_view frame) {
  if (frame.size() < kHeaderBytes) {
    return malformed("frame of " + std::to_string(frame.size()) + " bytes; the header has 16");
  }
  if (std::memcmp(frame.data(), kMagic, sizeof(kMagic)) != 0) {
    return malformed("does not begin with the magic HFST; not a peer of this protocol");
  }
  const std::uint32_t version = get_little_endian(frame.substr(4), 2);
  if (version > kVersion || version + 1 < kVersion) {  // the second is false while kVersion is 1
    return malformed("protocol version " + std::to_string(version) + "; expected " +
                     std::to_string(kVersion - 1) + " or " + std::to_string(kVersion));
  }
  const std::uint32_t length = get_little_endian(frame.substr(8), 4);
  if (length != frame.size() - kHeaderBytes) {
    return malformed("header says " + std::to_string(length) + " bytes of content, the frame has " +
                     std::to_string(frame.size() - kHeaderBytes));
  }
  if (get_little_endian(frame.substr(12), 4) != 0) return malformed("reserved field is not 0");
  return {};
}

}  // namespace

Result<Message> decode(std::string_view frame) {
  HOLDFAST_CHECKED(check_header(frame));
  const std::uint32_t number = get_little_endian(frame.substr(6), 2);
  for (const TypeEntry& type : kTypes) {
    if (type.number != number) continue;
    CborReader in(frame.substr(kHeaderBytes));
    Message message;
    if (type.read(in, message) && in.remaining() != 0) in.fail("bytes after the end of the map");
    if (in.ok()) return message;
    return malformed(std::string(type.name) + " at byte " +
                     std::to_string(kHeaderBytes + in.offset()) + ": " + in.error());
  }
  return malformed("unknown type " + std::to_string(number));
}

}  // namespace holdfast::wire
