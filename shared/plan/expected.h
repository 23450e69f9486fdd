#pragma once
// Which tensors a model of a shape consists of. Internal to shared/plan, and the list that `synth`
// writes by.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/gguf/gguf.h"
#include "shared/plan/plan.h"

namespace holdfast::plan {

inline constexpr std::string_view kArchitectures[] = {"llama", "qwen2", "qwen3"};

struct ExpectedTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  // dims[0] is contiguous
  bool is_matrix() const { return dims.size() > 1; }
};

/// Every tensor of the model, in file order: embedding, output norm, output unless tied, layers.
/// Reads layers, width, ff, heads, kv_heads, head_dim, rope_dims, vocab and the flags of `shape`.
std::vector<ExpectedTensor> expected_tensors(const ModelShape& shape);

/// Each expected tensor is there with its shape and a type that has a float meaning, and there is
/// no other that would change the result. kFileInvalid or kUnsupported.
Result<void> check_tensors(const gguf::File& file, const ModelShape& shape);

/// "256 x 320"
std::string dims_text(const gguf::TensorInfo& tensor);
/// Quoted, cut and escaped text of a file, for messages.
std::string printable(std::string_view text);

}  // namespace holdfast::plan
