#include "shared/gguf/writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shared/gguf/quants.h"

namespace holdfast::gguf {
namespace {

constexpr std::uint64_t kAlignment = 32;  // the format's default, so no key states it
constexpr std::size_t kBufferBytes = 1u << 20;

template <class T>
void append(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void append_string(std::string& out, std::string_view text) {
  append<std::uint64_t>(out, text.size());
  out.append(text);
}

void append_type(std::string& out, ValueType type) {
  append<std::uint32_t>(out, static_cast<std::uint32_t>(type));
}

template <class T>
std::string scalar(ValueType type, T value) {
  std::string out;
  append_type(out, type);
  append(out, value);
  return out;
}

std::string array_head(ValueType element, std::uint64_t count) {
  std::string out;
  append_type(out, ValueType::kArray);
  append_type(out, element);
  append(out, count);
  return out;
}

std::uint64_t padded(std::uint64_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

std::uint64_t tensor_bytes(TensorType type, const std::vector<std::uint64_t>& dims) {
  auto bytes = row_bytes(type, dims.empty() ? 1 : dims[0]);
  for (std::size_t d = 1; d < dims.size() && bytes; ++d) bytes = checked_mul(*bytes, dims[d]);
  CHECK_MSG(bytes.has_value(), "a tensor's shape does not fit its type");
  return *bytes;
}

void put(std::vector<std::pair<std::string, std::string>>& values, std::string_view key,
         std::string value) {
  CHECK(!key.empty() && key.size() <= kMaxNameBytes);
  for (auto& [existing_key, old] : values) {
    if (existing_key == key) {
      old = std::move(value);
      return;
    }
  }
  values.emplace_back(key, std::move(value));
}

Error write_error(const std::string& path, const char* step) {
  const int error = errno;
  const bool full = error == ENOSPC || error == EDQUOT;
  return Error{full ? Errc::kDiskFull : Errc::kIo,
               "write model " + path + ": " + step + ": " + std::strerror(error)};
}

/// A temporary file next to the target, removed unless commit() succeeds.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path) : path_(std::move(path)) {}
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  Result<void> open() {
    std::string name = path_ + ".tmp-XXXXXX";
    fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd_ < 0) return write_error(path_, "create a temporary file beside it");
    temporary_ = name;
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(fd_, 0666 & ~mask) != 0) return write_error(path_, "set its mode");
    buffer_.reserve(kBufferBytes);
    return {};
  }

  Result<void> write(ByteSpan bytes) {
    if (buffer_.size() + bytes.size() > kBufferBytes) HOLDFAST_CHECKED(flush());
    if (bytes.size() >= kBufferBytes) {
      return write_all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }

  Result<void> commit() {
    HOLDFAST_CHECKED(flush());
    if (::fsync(fd_) != 0) return write_error(path_, "fsync");
    const int closed = ::close(fd_);
    fd_ = -1;
    if (closed != 0) return write_error(path_, "close");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return write_error(path_, "rename");
    temporary_.clear();
    return sync_folder();
  }

 private:
  Result<void> flush() {
    auto done = write_all(buffer_.data(), buffer_.size());
    buffer_.clear();
    return done;
  }

  Result<void> write_all(const char* bytes, std::size_t size) {
    while (size > 0) {
      const ssize_t n = ::write(fd_, bytes, size);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return write_error(path_, "write");
      bytes += n;
      size -= static_cast<std::size_t>(n);
    }
    return {};
  }

  Result<void> sync_folder() const {
    const std::size_t slash = path_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return write_error(path_, "open its folder");
    const int synced = ::fsync(fd);
    const Error error = synced == 0 ? Error{} : write_error(path_, "fsync its folder");
    ::close(fd);
    if (synced != 0) return error;
    return {};
  }

  std::string path_;
  std::string temporary_;
  std::string buffer_;
  int fd_ = -1;
};

struct HeaderTensor {
  std::string_view name;
  TensorType type;
  const std::vector<std::uint64_t>* dims;
};

std::string encode_header(const std::vector<std::pair<std::string, std::string>>& values,
                          const std::vector<HeaderTensor>& tensors) {
  std::string out = "GGUF";
  append<std::uint32_t>(out, 3);
  append<std::uint64_t>(out, tensors.size());
  append<std::uint64_t>(out, values.size());
  for (const auto& [key, value] : values) {
    append_string(out, key);
    out.append(value);
  }
  std::uint64_t offset = 0;
  for (const HeaderTensor& tensor : tensors) {
    append_string(out, tensor.name);
    append<std::uint32_t>(out, static_cast<std::uint32_t>(tensor.dims->size()));
    for (const std::uint64_t dim : *tensor.dims) append(out, dim);
    append<std::uint32_t>(out, static_cast<std::uint32_t>(tensor.type));
    append(out, offset);
    offset += padded(tensor_bytes(tensor.type, *tensor.dims));
  }
  out.resize(padded(out.size()), '\0');
  return out;
}

}  // namespace

void Writer::set_u32(std::string_view key, std::uint32_t v) {
  put(values_, key, scalar(ValueType::kU32, v));
}
void Writer::set_u64(std::string_view key, std::uint64_t v) {
  put(values_, key, scalar(ValueType::kU64, v));
}
void Writer::set_i32(std::string_view key, std::int32_t v) {
  put(values_, key, scalar(ValueType::kI32, v));
}
void Writer::set_f32(std::string_view key, float v) {
  put(values_, key, scalar(ValueType::kF32, v));
}
void Writer::set_bool(std::string_view key, bool v) {
  put(values_, key, scalar<std::uint8_t>(ValueType::kBool, v ? 1 : 0));
}
void Writer::set_string(std::string_view key, std::string_view v) {
  std::string out;
  append_type(out, ValueType::kString);
  append_string(out, v);
  put(values_, key, std::move(out));
}
void Writer::set_strings(std::string_view key, const std::vector<std::string>& v) {
  std::string out = array_head(ValueType::kString, v.size());
  for (const std::string& text : v) append_string(out, text);
  put(values_, key, std::move(out));
}
void Writer::set_floats(std::string_view key, const std::vector<float>& v) {
  std::string out = array_head(ValueType::kF32, v.size());
  for (const float x : v) append(out, x);
  put(values_, key, std::move(out));
}
void Writer::set_i32s(std::string_view key, const std::vector<std::int32_t>& v) {
  std::string out = array_head(ValueType::kI32, v.size());
  for (const std::int32_t x : v) append(out, x);
  put(values_, key, std::move(out));
}

void Writer::set_bools(std::string_view key, const std::vector<bool>& v) {
  std::string out = array_head(ValueType::kBool, v.size());
  for (const bool x : v) append(out, static_cast<std::uint8_t>(x ? 1 : 0));
  put(values_, key, std::move(out));
}

void Writer::copy_key(const File& from, std::string_view key) {
  const ByteSpan raw = from.raw_value(key);
  CHECK_MSG(!raw.empty(), "copy_key of a key that is not there");
  put(values_, key, std::string(reinterpret_cast<const char*>(raw.data()), raw.size()));
}

void Writer::add_tensor(std::string_view name, TensorType type,
                        const std::vector<std::uint64_t>& dims, Producer produce) {
  CHECK(!name.empty() && name.size() <= kMaxNameBytes);
  CHECK(dims.size() <= 4);
  tensor_bytes(type, dims);  // CHECKs the shape here, where the caller is on the stack
  tensors_.push_back({std::string(name), type, dims, std::move(produce)});
}

Result<void> Writer::emit(const Sink& sink,
                          const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  std::vector<HeaderTensor> heads;
  std::uint64_t total = 0;
  for (const Tensor& tensor : tensors_) {
    heads.push_back({tensor.name, tensor.type, &tensor.dims});
    total += padded(tensor_bytes(tensor.type, tensor.dims));
  }
  const std::string header = encode_header(values_, heads);
  total += header.size();
  std::uint64_t done = header.size();
  HOLDFAST_CHECKED(sink(std::as_bytes(std::span(header.data(), header.size()))));
  static constexpr std::byte kZeros[kAlignment] = {};
  for (const Tensor& tensor : tensors_) {
    const std::uint64_t size = tensor_bytes(tensor.type, tensor.dims);
    std::uint64_t written = 0;
    HOLDFAST_CHECKED(tensor.produce([&](ByteSpan bytes) -> Result<void> {
      written += bytes.size();
      CHECK_MSG(written <= size, "a producer gives more bytes than its tensor has");
      HOLDFAST_CHECKED(sink(bytes));
      if (progress) progress(done + written, total);
      return {};
    }));
    CHECK_MSG(written == size, "a producer gives fewer bytes than its tensor has");
    HOLDFAST_CHECKED(sink(ByteSpan(kZeros).first(padded(size) - size)));
    done += padded(size);
  }
  if (progress) progress(total, total);
  return {};
}

Result<void> Writer::write(const std::string& path,
                           const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  AtomicFile file(path);
  HOLDFAST_CHECKED(file.open());
  HOLDFAST_CHECKED(emit([&](ByteSpan bytes) { return file.write(bytes); }, progress));
  return file.commit();
}

Result<std::string> Writer::to_bytes() {
  std::string out;
  HOLDFAST_CHECKED(emit(
      [&](ByteSpan bytes) -> Result<void> {
        out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return {};
      },
      {}));
  return out;
}

}  // namespace holdfast::gguf
