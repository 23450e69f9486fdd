// Computes the bytes of a file's weights packed into panels of 16 rows
// (worker/weights/layout.h): heads and matrices are padded to whole panels, rows of plain
// floats to 32, scales of some types to bytes.

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "shared/gguf/quants.h"
#include "shared/plan/expected.h"
#include "shared/plan/family.h"
#include "shared/plan/packed.h"

namespace holdfast::plan {
namespace {

using gguf::TensorInfo;
using gguf::TensorType;

std::uint64_t up(std::uint64_t n, std::uint64_t to) {
  return (n + to - 1) / to * to;
}

bool is_heads(const std::string& name, const ModelShape& shape) {
  if (shape.latent > 0) return false;
  if (shape.attention_step > 0 && name.find(".attn_qkv.") != std::string::npos) return false;
  for (const char* part : {".attn_q.", ".attn_k.", ".attn_v.", ".attn_qkv."}) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

/// Returns N of "blk.N."; -1 for a tensor of no layer.
std::int64_t layer_of(const std::string& name) {
  return name.starts_with("blk.") ? std::atoll(name.c_str() + 4) : -1;
}

/// Returns the elements of a head of the tensor's layer.
std::uint64_t head_dim_of(const TensorInfo& t, const ModelShape& shape, const Details& details) {
  const std::int64_t layer = layer_of(t.name);
  return static_cast<std::uint64_t>(layer < 0 ? shape.head_dim
                                              : heads_of_layer(shape, details, layer).head_dim);
}

bool is_vector(const TensorInfo& t) {
  return t.n_dims == 1 || t.name.ends_with(".bias");
}

/// Returns true for a table whose rows are looked up in the file, and never packed.
bool is_looked_up(const TensorInfo& t, const ModelShape& shape) {
  if (t.name.starts_with("position_embd") || t.name.starts_with("per_layer_token_embd")) {
    return true;
  }
  return t.name.starts_with("token_embd") && (!shape.tied_embeddings || !shape.causal);
}

/// Returns the rows of a matrix that are packed together.
std::uint64_t row_group(const TensorInfo& t, const ModelShape& shape, std::uint64_t rows) {
  if (t.name.starts_with("per_layer_model_proj")) {
    return static_cast<std::uint64_t>(shape.layer_input);
  }
  return t.name.find(".ffn_gate_up_exps.") != std::string::npos ? rows / 2 : rows;
}

std::uint64_t packed_bytes_of(const TensorInfo& t, const ModelShape& shape,
                              const Details& details) {
  const std::uint64_t head = head_dim_of(t, shape, details);
  const bool heads = is_heads(t.name, shape);
  if (t.name.ends_with(".ssm_conv1d.weight")) return 4 * (t.dims[0] * up(t.dims[1], 16) + 16);
  if (is_vector(t)) {
    const std::uint64_t group = heads ? head : t.dims[0];
    return 4 * (t.elements() / group * up(group, 16) + 16);
  }
  if (is_looked_up(t, shape)) return t.data.size();
  if (t.name.starts_with("token_types")) return 4 * t.dims[0];
  const auto traits = gguf::type_traits(t.type);
  const bool plain = traits->block_elements == 1;
  const std::uint64_t block = plain ? 32 : traits->block_elements;
  const std::uint64_t bytes = 16 * (plain ? 32 * traits->block_bytes : packed_block_bytes(t.type));
  const std::uint64_t rows = t.elements() / t.dims[0];
  const std::uint64_t group = row_group(t, shape, heads ? head : t.dims[1]);
  const std::uint64_t panels = rows / group * (up(group, 16) / 16);
  return panels * up(up(t.dims[0], block) / block * bytes, 64);
}

/// Returns true if the tensor has no bytes but while it is held; a view of shapes has none either.
bool is_made(const TensorInfo& t) {
  return t.made != nullptr || (t.data.data() == nullptr && !t.data.empty());
}

}  // namespace

std::uint64_t load_bytes(const gguf::File& file, const ModelShape& shape, const Details& details) {
  struct Made {
    std::uint64_t bytes, packed;
  };
  std::vector<Made> made;
  std::uint64_t left = 0;  // that is packed afterwards
  for (const TensorInfo& tensor : file.tensors()) {
    if (is_left_out(tensor.name, shape) || tensor.name.starts_with("rope_f")) continue;
    if (is_vector(tensor) || is_looked_up(tensor, shape)) continue;  // copied before
    const std::uint64_t packed = packed_bytes_of(tensor, shape, details);
    left += packed;
    if (is_made(tensor)) made.push_back({tensor.data.size(), packed});
  }
  std::sort(made.begin(), made.end(),
            [](const Made& a, const Made& b) { return a.bytes > b.bytes; });
  std::uint64_t most = 0;
  for (const Made& m : made) {
    left -= m.packed;
    most = std::max(most, m.bytes - std::min(m.bytes, left));
  }
  return most;
}

std::uint64_t packed_weights(const gguf::File& file, const ModelShape& shape,
                             const Details& details) {
  const Family* family = find_family(shape.architecture);
  const bool parallel = family != nullptr && family->parallel;
  std::uint64_t all = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    if (is_left_out(tensor.name, shape)) continue;
    if (tensor.name.starts_with("rope_f")) continue;
    // Parallel blocks norm the same rows, each by vectors of its own.
    const bool twice = parallel && tensor.name.ends_with(".attn_norm.weight");
    all += up(packed_bytes_of(tensor, shape, details), 64) * (twice ? 2 : 1);
  }
  return all;
}

}  // namespace holdfast::plan
