#pragma once
// A program's operations with their weights packed and in place.

#include <cstdint>
#include <vector>

#include "worker/backend/cpu/kernels.h"
#include "worker/model/program.h"

namespace holdfast::cpu {

/// The activation formats that the decode-heavy and the prefill-heavy kernels take. Null: floats.
struct ActivationFormats {
  const ActivationFormat* decode_heavy = nullptr;
  const ActivationFormat* prefill_heavy = nullptr;
};

/// The encoding of an operation's rows for its products.
struct RowEncoding {
  ActivationFormats formats;
  bool int8 = false;        // its rows are int8, where the kernels have that format (activations.h)
  std::int64_t floats = 0;  // of an encoded row; 0: its products take floats
  bool done = false;        // kDownAdd: Buffers::feed_forward holds its rows encoded
  ActivationFormats fused;  // kNormGateUp: the next operation's; the epilogue encodes so
};

/// Heads of attention (kNormQkv, kQkNorm, kAttention, kLatentHeads).
struct HeadParts {
  const float* norm[2] = {};     // q, k
  const float* sinks = nullptr;  // kAttention: [heads]
  std::int32_t kind = 0;         // index of ForwardContext::head_kinds
  std::int64_t pages_at = 0;     // offset of the keys of its layer, or of the layer that it reads
  bool gated = false;            // each head of q is followed by its gate
  bool row_norm = false;         // a kQkNorm follows
  bool value_norm = false;
  std::int32_t rope = -1, query_rope = -1;  // index of the table for keys, for queries
  std::int64_t window = 0;
};

/// Vectors of a router (kRoute).
struct RouterParts {
  const float* gate = nullptr;          // of the shared expert
  const float* choice = nullptr;        // [experts], added to the scores that choose
  const float* expert_scale = nullptr;  // [experts]
};

/// Vectors of a recurrent layer (kDelta).
struct DeltaParts {
  const float* conv = nullptr;  // [taps][columns to 16]
  const float* rate = nullptr;  // [state_heads]
  const float* step_bias = nullptr;
  bool neighbours = false;  // plan::DeltaNet
};

/// One operation with its weights in place. Vectors are padded like the rows that they meet.
struct PackedOp {
  model::OpKind kind = model::OpKind::kEmbed;
  std::int32_t layer = -1;
  PackedMatrix matrix[4];
  const float* norm = nullptr;
  const float* norm_bias = nullptr;
  const float* bias[3] = {};  // q, k, v; of out and down; of gate and up; of each expert
  /// kNormAdd: norm of h alone. kRoute: norm of the experts' input, where that differs from the
  /// router's. kLayerInputs: norm of each layer's input.
  const float* inner_norm = nullptr;
  const float* factor = nullptr;  // kNormAdd: one number
  const float* types = nullptr;   // kEmbedScaleAdd
  plan::NormKind norm_kind = plan::NormKind::kRms;
  Activate activate = Activate::kSilu;
  bool general_path = false;  // llama's function of the operation leaves something out
  bool from_h = false, to_h = false, gate_rows = false;
  bool by_input = false;
  std::int64_t input_at = 0;  // by_input: offset in a row of Buffers::layer_input
  float scale = 1, cap = 0;
  RowEncoding encoding;
  HeadParts heads;
  RouterParts router;
  DeltaParts delta;
};

/// The source of embedding rows: packed panels shared with the output, or the file's rows.
struct EmbeddingTable {
  const PackedMatrix* packed = nullptr;
  const std::uint8_t* rows = nullptr;
  std::size_t row_bytes = 0;
  gguf::TensorType type = gguf::TensorType::kF32;
};

/// The rule by which a router chooses experts and weighs them.
struct RoutingRule {
  plan::Router router = plan::Router::kSoftmax;
  bool normalises = true;  // the weights of a row's experts sum to `scale`
  float scale = 1;
  std::int64_t groups = 1, groups_used = 1;
};

/// A program as packed.
struct PackedProgram {
  std::vector<PackedOp> ops;
  std::size_t leading = 0;  // operations before the first layer
  std::size_t for_all = 0;  // operations that every token needs (model::operations_for_all)
  EmbeddingTable embedding;
  EmbeddingTable positions;
  EmbeddingTable layer_inputs;
  RoutingRule routing;
};

}  // namespace holdfast::cpu
