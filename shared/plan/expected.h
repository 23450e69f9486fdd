#pragma once
// Which tensors a model of a shape consists of. Internal to shared/plan, and the list that `synth`
// writes by.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/gguf/gguf.h"
#include "shared/plan/family.h"
#include "shared/plan/plan.h"

namespace holdfast::plan {

struct ExpectedTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  // dims[0] is contiguous
  /// Biases of experts have a row for each, and are vectors all the same.
  bool is_matrix() const { return dims.size() > 1 && !name.ends_with(".bias"); }
};

/// Every tensor of the model, in file order: embedding, output norm, output unless tied, layers.
/// Reads the sizes and flags of `shape`; of `details` the family, fused_qkv, the biases, the rows
/// of positions and types, whether the scaling is longrope, and what layers differ in.
std::vector<ExpectedTensor> expected_tensors(const ModelShape& shape, const Details& details);

/// Each expected tensor is there with its shape and a type that has a float meaning, and there is
/// no other that would change the result. kFileInvalid or kUnsupported.
Result<void> check_tensors(const gguf::File& file, const ModelShape& shape, const Details& details);

/// Bytes of the file's weights once packed. The tensors must have been checked.
std::uint64_t packed_weights(const gguf::File& file, const ModelShape& shape,
                             const Details& details);

/// "256 x 320"
std::string dims_text(const gguf::TensorInfo& tensor);
/// Quoted, cut and escaped text of a file, for messages.
std::string printable(std::string_view text);

}  // namespace holdfast::plan
