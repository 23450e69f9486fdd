#include "shared/plan/expected.h"

#include <unordered_set>

#include "shared/gguf/parse.h"

namespace holdfast::plan {
namespace {

using gguf::TensorInfo;
using gguf::TensorType;

std::string join(const std::uint64_t* dims, std::size_t n) {
  std::string out;
  for (std::size_t d = 0; d < n; ++d) out += (d ? " x " : "") + std::to_string(dims[d]);
  return n == 0 ? "a scalar" : out;
}

/// Types that dequantize_row knows.
bool has_float_meaning(TensorType type) {
  switch (type) {
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
    case TensorType::kQ4_0:
    case TensorType::kQ4_1:
    case TensorType::kQ5_0:
    case TensorType::kQ5_1:
    case TensorType::kQ8_0:
    case TensorType::kQ2_K:
    case TensorType::kQ3_K:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
    case TensorType::kQ6_K:
    case TensorType::kIQ4_NL:
    case TensorType::kIQ4_XS:
      return true;
    default:
      return false;
  }
}

Error fail(const gguf::File& file, Errc code, const std::string& what) {
  return Error{code, "read model " + std::string(file.name()) + ": " + what};
}

Result<void> check_one(const gguf::File& file, const ExpectedTensor& want) {
  const TensorInfo* tensor = file.tensor(want.name);
  const std::string where = "tensor \"" + want.name + "\"";
  const std::string shape = join(want.dims.data(), want.dims.size());
  if (!tensor) return fail(file, Errc::kFileInvalid, where + " is missing, expected " + shape);
  bool same = tensor->n_dims == want.dims.size();
  for (std::size_t d = 0; same && d < want.dims.size(); ++d) same = tensor->dims[d] == want.dims[d];
  if (!same) {
    const bool turned = want.is_matrix() && tensor->n_dims == 2 &&
                        tensor->dims[0] == want.dims[1] && tensor->dims[1] == want.dims[0];
    return fail(file, Errc::kFileInvalid,
                where + (turned ? " is stored transposed: it is " : " is ") + dims_text(*tensor) +
                    ", expected " + shape);
  }
  const std::string type(gguf::type_traits(tensor->type)->name);
  if (!has_float_meaning(tensor->type)) {
    return fail(file, Errc::kUnsupported, where + " has type " + type + ", which is not supported");
  }
  if (!want.is_matrix() && gguf::type_traits(tensor->type)->block_elements > 1) {
    return fail(file, Errc::kUnsupported,
                where + " has type " + type + ", expected F32, F16 or BF16 for a vector");
  }
  return {};
}

}  // namespace

std::vector<ExpectedTensor> expected_tensors(const ModelShape& shape) {
  const auto n = [](std::int64_t v) { return static_cast<std::uint64_t>(v); };
  const std::uint64_t width = n(shape.width);
  const std::uint64_t ff = n(shape.ff);
  const std::uint64_t head = n(shape.head_dim);
  const std::uint64_t q = n(shape.heads) * head;
  const std::uint64_t kv = n(shape.kv_heads) * head;
  std::vector<ExpectedTensor> out;
  out.push_back({"token_embd.weight", {width, n(shape.vocab)}});
  out.push_back({"output_norm.weight", {width}});
  if (!shape.tied_embeddings) out.push_back({"output.weight", {width, n(shape.vocab)}});
  if (shape.has_rope_freqs) out.push_back({"rope_freqs.weight", {n(shape.rope_dims) / 2}});
  for (std::int64_t i = 0; i < shape.layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    out.push_back({layer + "attn_norm.weight", {width}});
    out.push_back({layer + "attn_q.weight", {width, q}});
    out.push_back({layer + "attn_k.weight", {width, kv}});
    out.push_back({layer + "attn_v.weight", {width, kv}});
    if (shape.qkv_bias) {
      out.push_back({layer + "attn_q.bias", {q}});
      out.push_back({layer + "attn_k.bias", {kv}});
      out.push_back({layer + "attn_v.bias", {kv}});
    }
    if (shape.qk_norm) {
      out.push_back({layer + "attn_q_norm.weight", {head}});
      out.push_back({layer + "attn_k_norm.weight", {head}});
    }
    out.push_back({layer + "attn_output.weight", {q, width}});
    out.push_back({layer + "ffn_norm.weight", {width}});
    out.push_back({layer + "ffn_gate.weight", {width, ff}});
    out.push_back({layer + "ffn_up.weight", {width, ff}});
    out.push_back({layer + "ffn_down.weight", {ff, width}});
  }
  return out;
}

Result<void> check_tensors(const gguf::File& file, const ModelShape& shape) {
  const std::vector<ExpectedTensor> expected = expected_tensors(shape);
  std::unordered_set<std::string_view> known;
  for (const ExpectedTensor& want : expected) {
    HF_CHECKED(check_one(file, want));
    known.insert(want.name);
  }
  for (const TensorInfo& tensor : file.tensors()) {
    // Old converters stored the rope frequencies that everybody computes; they change nothing.
    if (known.contains(tensor.name) || tensor.name.ends_with("attn_rot_embd.weight") ||
        tensor.name.ends_with("rotary_emb.inv_freq")) {
      continue;
    }
    return fail(file, Errc::kUnsupported,
                "tensor " + printable(tensor.name) + " is not part of a " + shape.architecture +
                    " model with " + std::to_string(shape.layers) + " layers as we know it");
  }
  return {};
}

std::string dims_text(const TensorInfo& tensor) {
  return join(tensor.dims, tensor.n_dims);
}

std::string printable(std::string_view text) {
  return gguf::quoted(text);
}

}  // namespace holdfast::plan
