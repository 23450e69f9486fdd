#pragma once
// Tensors of *.safetensors files: u64 header length, a JSON header, raw data (format facts of
// huggingface/safetensors). Every number is checked against the file before it is used.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/result.h"

namespace holdfast::huggingface {

inline constexpr std::uint64_t kHeaderBytesMax = 32u << 20;
inline constexpr std::size_t kTensorsMax = 1u << 20;  // Mixtures of experts have many small ones.

class CodedMatrix;  // coded_matrix.h

/// A tensor as a file stores it, or the matrix that several of a quantised layer make together.
struct StoredTensor {
  std::string dtype;                 // "F32", "BF16", …
  std::vector<std::uint64_t> shape;  // in the file's order: the last one is contiguous
  ByteSpan data;                     // in the mapping; of a coded matrix a size and no bytes
  std::shared_ptr<const CodedMatrix> coded = nullptr;
};

/// Returns the bytes of an element of a supported dtype (F32, F16, BF16), 0 for any other.
std::uint64_t dtype_bytes(std::string_view dtype);

/// A mapped file. Immutable, safe from any thread; spans live as long as it.
class Safetensors {
 public:
  /// Opens a file. kIo; kFileInvalid with the tensor, its value and what was expected: a header
  /// longer than the file, a shape that does not match the bytes, data outside of the file or
  /// overlapping other data.
  static Result<std::shared_ptr<const Safetensors>> open(const std::string& path);
  ~Safetensors();
  Safetensors(const Safetensors&) = delete;
  Safetensors& operator=(const Safetensors&) = delete;

  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  std::uint64_t file_bytes() const { return bytes_.size(); }

 private:
  explicit Safetensors(ByteSpan bytes) : bytes_(bytes) {}
  Result<void> parse(const std::string& path);

  ByteSpan bytes_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace holdfast::huggingface
