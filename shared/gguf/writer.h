#pragma once
// Writes GGUF version 3 to a temporary file in the target's folder. The file is synced, then
// renamed, so a reader sees the old file or the whole new one.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/gguf/gguf.h"

namespace holdfast::gguf {

/// Collects keys and tensors of a file. Not thread-safe.
class Writer {
 public:
  /// Sets a key. Setting it again replaces its value and keeps its position.
  void set_u32(std::string_view key, std::uint32_t v);
  void set_u64(std::string_view key, std::uint64_t v);
  void set_i32(std::string_view key, std::int32_t v);
  void set_f32(std::string_view key, float v);
  void set_bool(std::string_view key, bool v);
  void set_string(std::string_view key, std::string_view v);
  void set_strings(std::string_view key, const std::vector<std::string>& v);
  void set_floats(std::string_view key, const std::vector<float>& v);
  void set_i32s(std::string_view key, const std::vector<std::int32_t>& v);
  void set_bools(std::string_view key, const std::vector<bool>& v);
  /// Copies one key with its type and value; CHECKs that it is there.
  void copy_key(const File& from, std::string_view key);

  /// Declares a tensor. Its data is requested once, in declaration order, while writing:
  /// produce(sink) calls sink(bytes) until the tensor's size is reached exactly (CHECKed).
  using Sink = std::function<Result<void>(ByteSpan)>;
  using Producer = std::function<Result<void>(const Sink&)>;
  void add_tensor(std::string_view name, TensorType type, const std::vector<std::uint64_t>& dims,
                  Producer produce);

  /// Writes header and data to `path`, atomically. progress(done_bytes, total_bytes) may be empty.
  /// kDiskFull, kIo, or the error of a producer; the target is then unchanged (or the whole new
  /// one, where only its folder could not be synced).
  Result<void> write(const std::string& path,
                     const std::function<void(std::uint64_t, std::uint64_t)>& progress = {});
  /// Returns the file as bytes; for blobs without (large) tensors.
  Result<std::string> to_bytes();

 private:
  struct Tensor {
    std::string name;
    TensorType type;
    std::vector<std::uint64_t> dims;
    Producer produce;
  };
  Result<void> emit(const Sink& sink,
                    const std::function<void(std::uint64_t, std::uint64_t)>& progress);

  std::vector<std::pair<std::string, std::string>> values_;  // key -> encoded type and value
  std::vector<Tensor> tensors_;
};

}  // namespace holdfast::gguf
