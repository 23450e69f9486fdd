#pragma once
// Tensors by name, with their shapes checked. Remembers which were taken: a tensor that is never
// taken would silently be left out of the computation.

#include <set>
#include <string>

#include "worker/model/program.h"

namespace holdfast::model {

/// Takes tensors of a file. Errors: kFileInvalid or kUnsupported, with the tensor, its shape and
/// what was expected.
class Taker {
 public:
  explicit Taker(const gguf::File& file) : file_(file) {}

  /// Takes `matrices` of rows x cols, or rows [first, first + n) of one where n > 0.
  Result<WeightRef> matrix(const std::string& name, std::int64_t rows, std::int64_t cols,
                           std::int64_t matrices = 1);
  Result<WeightRef> matrix_part(const std::string& name, std::int64_t rows, std::int64_t cols,
                                std::int64_t first, std::int64_t n);
  /// Takes n columns, or columns [first, first + part) where part > 0. Any plain float type.
  Result<WeightRef> vector(const std::string& name, std::int64_t n, bool optional = false);
  /// Takes n columns for each of `matrices`, as the biases of experts are.
  Result<WeightRef> vectors(const std::string& name, std::int64_t n, std::int64_t matrices);
  Result<WeightRef> vector_part(const std::string& name, std::int64_t n, std::int64_t first,
                                std::int64_t part);
  /// kUnsupported if a tensor was not taken, unless it belongs to layers that are left out.
  Result<void> all_taken(const plan::ModelShape& shape) const;
  const gguf::File& file() const { return file_; }

 private:
  std::string where(const std::string& name) const;
  Error missing(const std::string& name) const;
  Result<void> check_plain(const gguf::TensorInfo& t) const;
  Error wrong_shape(const gguf::TensorInfo& t, const std::string& expected) const;

  const gguf::File& file_;
  std::set<std::string> taken_;
};

/// The rotations of one kind of layer. Errors: kUnsupported, kFileInvalid.
Result<Rope> make_rope(Taker& take, const plan::ModelShape& shape, const plan::RopeSpec& spec);

}  // namespace holdfast::model
