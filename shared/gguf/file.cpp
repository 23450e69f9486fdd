// Implements gguf::File over a mapping or over bytes in memory.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "shared/base/open_files.h"
#include "shared/gguf/parse.h"
#include "shared/gguf/read_guard.h"

namespace holdfast::gguf {
namespace {

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// An integer (or bool) of the file: `i` if negative, else `u`.
struct Integer {
  bool negative = false;
  std::uint64_t u = 0;
  std::int64_t i = 0;
};

Integer from_signed(std::int64_t v) {
  return {v < 0, static_cast<std::uint64_t>(v), v};
}
Integer from_unsigned(std::uint64_t v) {
  return {false, v, static_cast<std::int64_t>(v)};
}

std::optional<Integer> load_integer(ValueType type, const std::byte* at) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kBool:
      return from_unsigned(load<std::uint8_t>(at));
    case ValueType::kI8:
      return from_signed(load<std::int8_t>(at));
    case ValueType::kU16:
      return from_unsigned(load<std::uint16_t>(at));
    case ValueType::kI16:
      return from_signed(load<std::int16_t>(at));
    case ValueType::kU32:
      return from_unsigned(load<std::uint32_t>(at));
    case ValueType::kI32:
      return from_signed(load<std::int32_t>(at));
    case ValueType::kU64:
      return from_unsigned(load<std::uint64_t>(at));
    case ValueType::kI64:
      return from_signed(load<std::int64_t>(at));
    default:
      return std::nullopt;
  }
}

std::optional<std::int64_t> to_i64(const Integer& v) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!v.negative && v.u > kMax) return std::nullopt;
  return v.i;
}

class FileImpl : public File {
 public:
  FileImpl(ByteSpan bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}
  FileImpl(const FileImpl&) = delete;
  FileImpl& operator=(const FileImpl&) = delete;

  Result<void> parse() {
    HOLDFAST_TRY(header_, parse_header(bytes_, name_));
    return {};
  }

  std::string_view name() const override { return name_; }
  std::uint32_t version() const override { return header_.version; }
  std::uint64_t file_bytes() const override { return bytes_.size(); }
  std::uint64_t alignment() const override { return header_.alignment; }
  const std::vector<std::string>& keys() const override { return header_.keys; }
  bool has(std::string_view key) const override { return find(key) != nullptr; }

  std::optional<ValueType> value_type(std::string_view key) const override {
    const Value* value = find(key);
    if (!value) return std::nullopt;
    return value->type;
  }

  std::optional<std::uint64_t> get_u64(std::string_view key) const override {
    const auto v = integer(key);
    if (!v || v->negative) return std::nullopt;
    return v->u;
  }
  std::optional<std::int64_t> get_i64(std::string_view key) const override {
    const auto v = integer(key);
    if (!v) return std::nullopt;
    return to_i64(*v);
  }
  std::optional<double> get_f64(std::string_view key) const override {
    const Value* value = find(key);
    if (!value) return std::nullopt;
    if (value->type == ValueType::kF32) return load<float>(value->payload.data());
    if (value->type == ValueType::kF64) return load<double>(value->payload.data());
    if (value->type == ValueType::kBool) return std::nullopt;
    const auto v = integer(key);
    if (!v) return std::nullopt;
    return v->negative ? static_cast<double>(v->i) : static_cast<double>(v->u);
  }
  std::optional<bool> get_bool(std::string_view key) const override {
    const auto v = integer(key);
    if (!v || v->negative || v->u > 1) return std::nullopt;
    return v->u == 1;
  }
  std::optional<std::string_view> get_string(std::string_view key) const override {
    const Value* value = find(key);
    if (!value || value->type != ValueType::kString) return std::nullopt;
    return text(value->payload);
  }

  std::optional<ValueType> array_type(std::string_view key) const override {
    const Value* value = array(key);
    if (!value) return std::nullopt;
    return value->element;
  }
  std::uint64_t array_size(std::string_view key) const override {
    const Value* value = array(key);
    return value ? value->count : 0;
  }
  std::optional<std::vector<std::string_view>> get_strings(std::string_view key) const override {
    const Value* value = array(key);
    if (!value || value->element != ValueType::kString) return std::nullopt;
    std::vector<std::string_view> out;
    out.reserve(value->count);
    ByteReader reader(value->payload);
    for (std::uint64_t i = 0; i < value->count; ++i) {  // the parser has checked the lengths
      out.push_back(text(reader.read_bytes(reader.read<std::uint64_t>().value()).value()));
    }
    return out;
  }
  std::optional<std::vector<float>> get_floats(std::string_view key) const override {
    const Value* value = array(key);
    if (!value) return std::nullopt;
    if (value->element != ValueType::kF32 && value->element != ValueType::kF64) return std::nullopt;
    std::vector<float> out(value->count);
    const std::byte* at = value->payload.data();
    if (value->element == ValueType::kF32) {
      if (!out.empty()) std::memcpy(out.data(), at, out.size() * sizeof(float));
      return out;
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<float>(load<double>(at + i * sizeof(double)));
    }
    return out;
  }
  std::optional<std::vector<std::int64_t>> get_ints(std::string_view key) const override {
    const Value* value = array(key);
    const std::uint64_t size = value ? scalar_bytes(value->element) : 0;
    if (size == 0) return std::nullopt;
    std::vector<std::int64_t> out(value->count);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto v = load_integer(value->element, value->payload.data() + i * size);
      const auto number = v ? to_i64(*v) : std::nullopt;
      if (!number) return std::nullopt;
      out[i] = *number;
    }
    if (value->element == ValueType::kF32 || value->element == ValueType::kF64) return std::nullopt;
    return out;
  }
  ByteSpan raw_value(std::string_view key) const override {
    const Value* value = find(key);
    return value ? value->raw : ByteSpan();
  }

  const std::vector<TensorInfo>& tensors() const override { return header_.tensors; }
  const TensorInfo* tensor(std::string_view name) const override {
    const auto found = header_.tensor_index.find(name);
    return found == header_.tensor_index.end() ? nullptr : &header_.tensors[found->second];
  }

 protected:
  ByteSpan bytes_;

 private:
  static std::string_view text(ByteSpan bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  const Value* find(std::string_view key) const {
    const auto found = header_.values.find(key);
    return found == header_.values.end() ? nullptr : &found->second;
  }
  const Value* array(std::string_view key) const {
    const Value* value = find(key);
    return value && value->type == ValueType::kArray ? value : nullptr;
  }
  std::optional<Integer> integer(std::string_view key) const {
    const Value* value = find(key);
    if (!value) return std::nullopt;
    return load_integer(value->type, value->payload.data());
  }

  std::string name_;
  Header header_;
};

class MappedFile final : public FileImpl {
 public:
  MappedFile(ByteSpan bytes, std::string name) : FileImpl(bytes, std::move(name)) {
    guard_mapping(bytes.data(), bytes.size());
  }
  ~MappedFile() override {
    forget_mapping(bytes_.data());
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
};

/// The string of a MemoryFile, in a base class so that it is constructed before the view of it and
/// destroyed after.
struct OwnedBytes {
  std::string owned;
};
class MemoryFile final : private OwnedBytes, public FileImpl {
 public:
  MemoryFile(std::string bytes, std::string name)
      : OwnedBytes{std::move(bytes)},
        FileImpl(std::as_bytes(std::span(owned.data(), owned.size())), std::move(name)) {}
};

Error io_error(const std::string& path, const std::string& cause) {
  return Error{Errc::kIo, "open model " + path + ": " + cause};
}

}  // namespace

Result<std::shared_ptr<const File>> File::open(const std::string& path) {
  const int fd = open_to_read(path);
  if (fd < 0) return io_error(path, std::strerror(errno));
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    const int error = errno;
    ::close(fd);
    return io_error(path, std::strerror(error));
  }
  if (!S_ISREG(info.st_mode) || info.st_size == 0) {
    ::close(fd);
    return io_error(path, S_ISREG(info.st_mode) ? "the file is empty" : "not a regular file");
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  ::close(fd);
  if (map == MAP_FAILED) return io_error(path, std::string("mmap: ") + std::strerror(error));
  auto file =
      std::make_shared<MappedFile>(ByteSpan(static_cast<const std::byte*>(map), size), path);
  HOLDFAST_CHECKED(file->parse());
  return std::shared_ptr<const File>(std::move(file));
}

Result<std::shared_ptr<const File>> File::from_bytes(std::string bytes, std::string name) {
  auto file = std::make_shared<MemoryFile>(std::move(bytes), std::move(name));
  HOLDFAST_CHECKED(file->parse());
  return std::shared_ptr<const File>(std::move(file));
}

}  // namespace holdfast::gguf
