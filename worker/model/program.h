#pragma once
// A model's architecture as one flat program of fused operations, built once from the header.
// Backends compile it at load; nothing in it depends on batch, position or sequence.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"
#include "shared/plan/family.h"
#include "shared/plan/plan.h"

namespace holdfast::model {

/// A tensor of the file that an operation reads, or a run of its rows: `rows` outputs of `cols`
/// inputs (cols contiguous). Several matrices of a tensor (experts) follow one another, or begin
/// `matrix_stride` rows of the tensor apart.
struct WeightRef {
  const gguf::TensorInfo* tensor = nullptr;  // nullptr = absent (optional bias, norm)
  std::int64_t rows = 0;                     // of all matrices
  std::int64_t cols = 0;
  std::int64_t first_row = 0;
  std::int64_t matrices = 1;
  std::int64_t matrix_stride = 0;  // 0 = rows / matrices
  bool present() const { return tensor != nullptr; }
};

/// The kinds of operations. x: the residual rows. h, s: rows between two operations. norm(x): by
/// Op::norm with w[0] and bias[0], x itself where w[0] is absent. bias[i] is added to the product
/// with w[i], for experts to each one's. act(a) * b is one function of both for some activations
/// (plan::Activation).
enum class OpKind : std::uint8_t {
  kEmbed,          // x = row of w[0] for the token
  kEmbedScaleAdd,  // x = x * scale + row of w[0] for the position + row 0 of w[1]
  kLayerInputs,  // p = (norm by w[0] of each layer's part of w[1] x / √width, + √n row of w[2] for
                 // the token) / √2, n numbers a layer
  kNormQkv,       // q,k,v = w[1..3] norm(x); q,k norm by w[4],w[5] per head if present; rope(q,k);
                  // k,v written to the KV pages of `layer`. Without w[3] v is k before its norm;
                  // without w[2] there are neither, and attention reads another layer's
  kQkNorm,        // after a kNormQkv whose q,k norm goes over all heads: that norm, rope, k written
  kNormLatent,    // q = w[1] norm(x), or the input of kLatentQuery; l = w[2] norm(x)
  kLatentQuery,   // q = w[1] times kNormLatent's q normed by w[0]
  kLatentHeads,   // l normed by w[0] and its rotated part go into the pages; each head of q
                  // becomes w[1] of its part that is not rotated, then the rotated part
  kLatentValues,  // each head of a becomes w[0] of its latent numbers
  kNormDelta,     // m = w[1] norm(x), z = w[2] norm(x), the gates' numbers by w[3] and w[4] (both
                  // by w[3] where w[4] is absent)
  kDelta,         // a = the recurrence over m, normed by w[1], times silu(z); w[0] is the
                  // convolution, w[2] and bias[2] the decay; updates the state of `layer`
  kAttention,     // a = softmax(q k^T * scale) v over the sequence's pages of `layer`; where w[0]
                  // is present, its score of the head is one more of the softmax, without a value
  kGateHeads,     // a = a * sigmoid(z), z being the gates of the heads of a kNormQkv (Op::gated)
  kOutAdd,        // x += scale * w[0] a, or h = w[0] a (to_h)
  kNormGateUp,    // f = act(w[1] norm(x)) * (w[2] norm(x)); without w[2]: act(w[1] norm(x))
                  // (times the layer's part of p: by_input)
  kDownAdd,       // x += scale * w[0] f, or h = w[0] f (to_h)
  kNormStore,     // s = norm(h)
  kNormAdd,       // x += scale * norm(h), of s + (norm by w[1] of h) instead of h if w[1] is
                  // present; then x *= w[2], one number, if present
  kNorm,          // x = norm(x)
  kRoute,         // h = norm(x), by scale * w[0]; experts and their weights from w[1] h; gate =
                  // sigmoid(w[2] h); w[3] is added to scores that choose; weights times w[5]
                  // if present; then h = the norm of x by w[4] if present
  kExpertGateUp,  // for each chosen expert: f = act(w[1] h) * (w[2] h); without w[2]: w[1] holds
                  // both, one after the other for each expert
  kExpertDownAdd,  // x += scale * the chosen experts' weight * (w[0] f), by rising expert
  kNormLogits,     // for rows with logits: logits = w[1] norm(x), scaled and capped; w[1] is absent
                   // in encoders. For rows of Wants::hidden: norm(x)
};

/// The weights of an operation that its products take: [first, end) of Op::w.
constexpr std::pair<int, int> product_weights(OpKind kind) {
  switch (kind) {
    case OpKind::kNormQkv:
      return {1, 4};
    case OpKind::kNormLatent:
      return {1, 3};
    case OpKind::kLatentQuery:
    case OpKind::kLatentHeads:
    case OpKind::kLayerInputs:
      return {1, 2};
    case OpKind::kLatentValues:
      return {0, 1};
    case OpKind::kNormDelta:
      return {1, 5};
    case OpKind::kOutAdd:
    case OpKind::kDownAdd:
    case OpKind::kExpertDownAdd:
      return {0, 1};
    case OpKind::kNormGateUp:
    case OpKind::kExpertGateUp:
    case OpKind::kRoute:
      return {1, 3};
    case OpKind::kNormLogits:
      return {1, 2};
    case OpKind::kEmbed:
    case OpKind::kEmbedScaleAdd:
    case OpKind::kQkNorm:
    case OpKind::kAttention:
    case OpKind::kGateHeads:
    case OpKind::kDelta:
    case OpKind::kNormStore:
    case OpKind::kNormAdd:
    case OpKind::kNorm:
      break;
  }
  return {0, 0};
}

/// One operation of the program; OpKind says which members each kind reads.
struct Op {
  OpKind kind = OpKind::kEmbed;
  std::int32_t layer = -1;
  WeightRef w[6];
  WeightRef bias[6];
  plan::NormKind norm = plan::NormKind::kRms;
  plan::Activation activation = plan::Activation::kSilu;
  bool from_h = false;      // kNormGateUp reads the rows that kRoute left in h
  bool to_h = false;        // kOutAdd, kDownAdd
  bool gate_rows = false;   // kDownAdd: each row times its gate of kRoute
  bool row_norm = false;    // kNormQkv: a kQkNorm follows
  bool by_input = false;    // kNormGateUp
  bool value_norm = false;  // kNormQkv: each head's values are RMS-normed, without weights
  bool gated = false;       // kNormQkv: rows of w[1] are [heads][q, then its gate]
  std::int32_t rope = -1;   // of Program::ropes
  std::int64_t window = 0;  // kAttention: tokens that a token sees, itself included; 0 = all
  double scale = 1;         // kAttention: of scores, 0 = 1/√head_dim; kNormLogits: of logits;
                            // kRoute: of its norm
  std::int32_t pages_before = 0;  // kAttention: reads the pages of so many layers before
  double cap = 0;                 // soft cap of scores or logits: cap * tanh(y / cap); 0 = none
};

/// Rotary frequencies: angle(position, i) = position * inv_freq[i], [elements that turn / 2], with
/// all scaling applied (computed in float64); cos and sin are multiplied by `magnitude`.
struct Rope {
  std::vector<double> inv_freq;
  std::vector<double> inv_freq_long;  // instead, where the loaded context is above long_from
  std::int64_t long_from = 0;
  double magnitude = 1;
  /// Factors of cos and sin for queries: query_steps[p / step_length] at position p, the last step
  /// having no end; empty: queries turn as keys.
  std::vector<double> query_steps;
  std::int64_t step_length = 0;
  double of_query(std::int64_t position) const {
    if (query_steps.empty()) return 1;
    const auto step = static_cast<std::size_t>(position / step_length);
    return query_steps[step < query_steps.size() ? step : query_steps.size() - 1];
  }
};

/// The whole forward pass. References tensors of the gguf::File that it was built from, which must
/// outlive it until the backend has packed the weights.
struct Program {
  plan::ModelShape shape;
  plan::Details details;
  std::vector<Op> ops;
  std::vector<Rope> ropes;
};

/// True if an operation stores something of a token for later tokens: keys and values in pages, or
/// a state that has seen it.
constexpr bool writes_sequence_state(const Op& op) {
  switch (op.kind) {
    case OpKind::kNormQkv:
      return op.w[2].present();
    case OpKind::kQkNorm:
    case OpKind::kLatentHeads:
    case OpKind::kDelta:
      return true;
    default:
      return false;
  }
}

/// The number of operations up to the last that writes_sequence_state(): later ones are computed
/// only for a token's own logits or row. All of them where the program is the first part of
/// another, 0 where no operation stores anything.
inline std::size_t operations_for_all(const Program& program) {
  std::size_t n = program.ops.size();
  if (n == 0 || program.ops.back().kind != OpKind::kNormLogits) return n;
  while (n > 0 && !writes_sequence_state(program.ops[n - 1])) --n;
  return n;
}

/// Calls f(op, weights) for all weights of products, those of every expert included.
template <class F>
void for_products(const Program& program, F f) {
  for (const Op& op : program.ops) {
    const auto [first, end] = product_weights(op.kind);
    for (int i = first; i < end; ++i) {
      if (op.w[i].present()) f(op, op.w[i]);
    }
  }
}

/// Builds the program of a model. kUnsupported / kFileInvalid name the tensor, its shape and what
/// was expected. A NaN or infinity in weights is found later, while packing.
Result<Program> build_program(const gguf::File& file, const plan::ModelShape& shape);

}  // namespace holdfast::model
