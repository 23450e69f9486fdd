#pragma once
// An architecture as one flat program of fused operations, built once from the header. Backends
// compile it at load; nothing in it depends on batch, position or sequence.

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"
#include "shared/plan/plan.h"

namespace holdfast::model {

/// A tensor of the file that an operation reads. `rows` outputs of `cols` inputs (cols contiguous).
struct WeightRef {
  const gguf::TensorInfo* tensor = nullptr;  // nullptr = absent (optional bias, norm)
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  bool present() const { return tensor != nullptr; }
};

enum class OpKind : std::uint8_t {
  kEmbed,       // x = row of w[0] for the token
  kNormQkv,     // h = rmsnorm(x)*w[0]; q,k,v = w[1..3] h + bias[1..3]; q,k norm by w[4],w[5] per
                // head if present; rope(q,k); k,v written to the KV pages of `layer`
  kAttention,   // a = softmax(q k^T * scale, causal) v over the sequence's pages of `layer`
  kOutAdd,      // x += w[0] a
  kNormGateUp,  // h = rmsnorm(x)*w[0]; f = silu(w[1] h) * (w[2] h)
  kDownAdd,     // x += w[0] f
  kNormLogits,  // rows that want logits: h = rmsnorm(x)*w[0]; logits = w[1] h
};

struct Op {
  OpKind kind = OpKind::kEmbed;
  std::int32_t layer = -1;
  WeightRef w[6];
  WeightRef bias[6];
};

/// The whole forward pass. References tensors of the gguf::File that it was built from, which must
/// outlive it until the backend has packed the weights.
struct Program {
  plan::ModelShape shape;
  std::vector<Op> ops;
  /// cos/sin base per rotary pair: angle(position, i) = position * inv_freq[i], [rope_dims / 2],
  /// with linear, llama3 scaling and rope_freqs already applied (computed in float64).
  std::vector<double> inv_freq;
};

/// kUnsupported / kFileInvalid name the tensor, its shape and what was expected. Weights hold no
/// NaN or infinity: that is found while packing.
Result<Program> build_program(const gguf::File& file, const plan::ModelShape& shape);

}  // namespace holdfast::model
