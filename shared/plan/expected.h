#pragma once
// The tensors of a model of a given shape. Internal to shared/plan, and `synth` writes models by
// it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/gguf/gguf.h"
#include "shared/plan/family.h"
#include "shared/plan/plan.h"

namespace holdfast::plan {

/// A tensor that a model must have.
struct ExpectedTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  // dims[0] is contiguous
  /// Returns true for matrices. Biases of experts have a row for each, and are vectors all the
  /// same.
  bool is_matrix() const { return dims.size() > 1 && !name.ends_with(".bias"); }
};

/// Returns every tensor of the model, in file order: embedding, output norm, output unless tied,
/// layers. Reads the sizes and flags of `shape`; of `details` the family, fused_qkv, the biases,
/// the rows of positions and types, longrope, and what differs between layers.
std::vector<ExpectedTensor> expected_tensors(const ModelShape& shape, const Details& details);

/// Checks that each expected tensor is there with its shape and a type that dequantizes, and that
/// no other one would change the result. kFileInvalid or kUnsupported.
Result<void> check_tensors(const gguf::File& file, const ModelShape& shape, const Details& details);

/// Returns the bytes of the file's weights once packed. The tensors must have been checked.
std::uint64_t packed_weights(const gguf::File& file, const ModelShape& shape,
                             const Details& details);

/// Returns the bytes that a load takes beyond the packed weights while it packs tensors that are
/// made (shared/gguf/made.h): these are packed first, the largest before the others, so that each
/// fills memory of weights that are yet to be packed. The tensors must have been checked.
std::uint64_t load_bytes(const gguf::File& file, const ModelShape& shape, const Details& details);

/// Returns "256 x 320".
std::string dims_text(const gguf::TensorInfo& tensor);
/// Returns a text of a file quoted, cut and escaped, for messages.
std::string printable(std::string_view text);

}  // namespace holdfast::plan
