#pragma once
// The differences between architectures as one table: a family is a row.
// docs/contribute/adding-a-model.md says how to add one. Tensor and key names are the GGUF
// specification's.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/plan/plan.h"

namespace holdfast::plan {

/// The norm of rows: by their root mean square (RMSNorm), or by mean and variance (LayerNorm).
enum class NormKind : std::uint8_t { kRms, kLayer };
/// Activations, in this order: silu(x); x (1 + tanh(√(2/π)(x + 0.044715 x³))) / 2; x (1 + erf(x /
/// √2)) / 2; kSwigluOai, which has a gate: g σ(1.702 g) (u + 1) with g at most 7 and u within ±7
/// (gpt-oss's model card); max(x, 0)².
enum class Activation : std::uint8_t { kSilu, kGeluTanh, kGeluErf, kSwigluOai, kReluSquared };
/// Norms of queries and keys: over each head's elements, or over the heads of a token together.
enum class QkNorm : std::uint8_t { kNone, kHeads, kRow };
/// The occurrence of tensors or keys of a kind.
enum class Use : std::uint8_t { kNo, kMay, kMust };
/// The function from the router's products to scores: softmax over all, or each one's sigmoid.
enum class Router : std::uint8_t { kSoftmax, kSigmoid };

/// Recurrent layers between those that attend: a gated delta net (Yang et al. 2024, "Gated Delta
/// Networks"). kNeighbours: value heads that share a key head are adjacent, and so are their two
/// gates, in one tensor. kCyclic: the i-th value head has the i-th key head, modulo their number;
/// each kind of gate has its tensor.
enum class DeltaNet : std::uint8_t { kNone, kNeighbours, kCyclic };

/// One architecture. A block (attention, then feed-forward) computes
///   sum_norm(x + scale * branch_norm(block(pre_norm(x))))
/// with those of the three norms that the family has. Where blocks are parallel, both of a layer
/// take pre_norm's first norm of the same x.
struct Family {
  std::string_view name;
  RopeStyle rope = RopeStyle::kNeox;
  NormKind norm = NormKind::kRms;
  bool norm_bias = true;                   // of layer norms
  bool parallel = false;                   // no ffn_norm
  bool pre_norm = true;                    // attn_norm, ffn_norm
  bool branch_norm = false;                // post_attention_norm, post_ffw_norm
  bool sum_norm = false;                   // attn_output_norm, layer_output_norm
  std::string_view ffn_norm = "ffn_norm";  // the name of pre_norm's second one
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_left_out = false;  // some of its models have none
  Activation activation = Activation::kSilu;
  bool gated = true;           // down(act(gate) * up), else down(act(up))
  bool fused_qkv = false;      // its converters write it; either form is read
  bool fused_gate_up = false;  // ffn_up holds the gate's rows, then up's
  Use qkv_bias = Use::kMay;
  Use out_bias = Use::kNo;
  Use ffn_bias = Use::kNo;
  bool sinks = false;  // attn_sinks: a score of each head that takes weight and has no value
  // The embedding.
  bool positions = false;       // position_embd is added
  bool token_types = false;     // row 0 of token_types is added
  bool embedding_norm = false;  // token_embd_norm
  bool embedding_sqrt = false;  // times √width
  bool scale_keys = false;      // embedding, residual and logit (divisor) scales from keys
  bool logit_factor = false;    // key logit_scale: logits are multiplied by it
  // Layers that attend to the last `window` tokens alone: all but every period-th one (1: all). 0:
  // a header with a window must list them.
  std::int64_t window_period = 0;
  std::int64_t window = 0;            // where the header has none
  double window_rope_base = 0;        // 0: as the other layers
  bool window_rope_unscaled = false;  // rope scaling applies to the other layers alone
  bool yarn_whole_pairs = true;       // yarn's ramp begins and ends at a pair, not between two
  std::int64_t no_rope_step = 0;      // every n-th layer has no rotation
  bool rope_in_windows = false;       // where some layers are windowed, they alone rotate
  // Positions of several parts (time, height, width), which are equal for text.
  bool rope_sections = false;
  bool temperature = false;  // key attention.temperature_scale: queries at far positions grow
  double attention_cap = 0;  // where the header has none
  double logit_cap = 0;
  double attention_scale = 0;          // where the header has none; 0 = 1/√head_dim
  std::int64_t wide_scale_layers = 0;  // with that many layers scores are divided by √(width/heads)
  // Experts.
  Use experts = Use::kNo;
  bool expert_weights_norm = true;  // chosen weights sum to 1, by default
  Use shared_expert = Use::kNo;
  bool shared_gate = false;          // ffn_gate_inp_shexp: the shared expert times a sigmoid
  bool expert_bias = false;          // of the router and of every expert's three products
  Router router = Router::kSoftmax;  // by default
  Use choice_bias = Use::kNo;  // exp_probs_b: added to scores to choose experts, not to weight them
  bool expert_groups = false;  // keys expert_group_count, expert_group_used_count
  bool dense_first = false;    // key leading_dense_block_count: layers without experts
  bool next_layers = false;    // key nextn_predict_layers: the last ones, which text does not need
  bool encoder = false;        // every token attends to all; outputs vectors, no logits
  DeltaNet delta = DeltaNet::kNone;  // keys full_attention_interval, ssm.*
  /// Latent attention (DeepSeek-V2, arXiv 2405.04434), with the products between a head and the
  /// latent numbers in both directions: attn_k_b, attn_v_b.
  bool latent = false;
  /// Windowed layers have their own heads and rotations (keys attention.*_swa, rope.*_swa), any
  /// layer its own feed_forward_length; the last ones may read the pages of earlier ones of their
  /// kind (key attention.shared_kv_layers); without attn_v the values have the same source as the
  /// keys.
  bool uneven = false;
  bool value_norm = false;    // of each head's values, without weights
  bool layer_inputs = false;  // key embedding_length_per_layer_input: per_layer_*, inp_gate, proj
  bool layer_scale = false;   // layer_output_scale: scales the row after a layer
  bool experts_with_dense_ffn =
      false;                 // a feed-forward in parallel to the experts, each with its own norms
  bool gated_heads = false;  // attn_q has a gate after each head: its output times a sigmoid
};

/// Returns nullptr for an architecture that is not supported.
const Family* find_family(std::string_view architecture);
const std::vector<Family>& families();

/// The rotation of queries and keys by position, in one kind of layer.
struct RopeSpec {
  double base = 10000;
  std::int64_t dims = 0;  // elements of a head that rotate
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  std::int64_t original_context = 0;
  double low_factor = 1;    // llama3
  double high_factor = 4;   // llama3
  double ext_factor = 1;    // yarn: share of the blend, 1 = all
  double beta_fast = 32;    // yarn
  double beta_slow = 1;     // yarn
  bool whole_pairs = true;  // yarn
  double magnitude = 1;     // cos and sin are multiplied by it
  // Queries are multiplied by 1 + temperature × ln(1 + ⌊position / original_context⌋).
  double temperature = 0;
  bool operator==(const RopeSpec&) const = default;
};

/// The way from an embedding model's rows to one vector: none, their mean, the first row, the last
/// row. Numbered as the key pooling_type.
enum class Pooling : std::uint8_t { kNone, kMean, kCls, kLast };

/// The values of a model besides its sizes: the family, and what this header and these tensors say.
/// Not stored in the database; the worker reads it from the file.
struct Details {
  const Family* family = nullptr;
  bool fused_qkv = false;
  bool out_bias = false;
  bool ffn_bias = false;  // of up and down
  bool gate_bias = false;
  double attention_scale = 0;  // scores are multiplied by it; 0 = 1 / √head_dim
  double attention_cap = 0;    // 0 = none
  double logit_cap = 0;
  double embedding_scale = 1;
  double residual_scale = 1;
  double logit_scale = 1;      // logits are multiplied by it
  std::int64_t window = 0;     // tokens that a query attends to, including its own
  std::vector<bool> windowed;  // [layers]
  std::vector<bool> rotated;   // [layers]
  RopeSpec rope;
  RopeSpec window_rope;  // of windowed layers
  // Set for families with uneven layers alone.
  std::vector<std::int64_t> ff;       // [layers]; empty: ModelShape's
  std::vector<bool> keys_for_values;  // [layers]: no attn_v; empty: none
  bool layer_scale = false;
  bool gate_up_experts = false;  // ffn_gate_up_exps: the gate's rows of each expert, then up's
  bool expert_weights_norm = true;
  double expert_weights_scale = 1;
  Router router = Router::kSoftmax;
  bool choice_bias = false;
  // Experts are chosen from this many groups of neighbours: those with the largest sum of their two
  // best scores. 1 of 1: from all.
  std::int64_t expert_groups = 1;
  std::int64_t expert_groups_used = 1;
  std::int64_t position_rows = 0;
  std::int64_t type_rows = 0;
  bool pooling_named = false;
  Pooling pooling = Pooling::kNone;
};

/// Returns true if the layer's heads are the windowed layers' own kind.
inline bool has_window_heads(const ModelShape& shape, const Details& details, std::int64_t layer) {
  return shape.window_head_dim > 0 && details.windowed[static_cast<std::size_t>(layer)];
}
/// Returns the key and value heads of a layer, which windowed layers may have of their own.
inline KvHeads heads_of_layer(const ModelShape& shape, const Details& details, std::int64_t layer) {
  return has_window_heads(shape, details, layer) ? window_heads(shape) : plain_heads(shape);
}
/// Returns the width of a layer's feed-forward network, which may differ from layer to layer.
inline std::int64_t ff_of_layer(const ModelShape& shape, const Details& details,
                                std::int64_t layer) {
  return details.ff.empty() ? shape.ff : details.ff[static_cast<std::size_t>(layer)];
}
/// True if a layer has no matrix of values: its keys, before their norm, are the values.
inline bool has_keys_for_values(const Details& details, std::int64_t layer) {
  return !details.keys_for_values.empty() &&
         details.keys_for_values[static_cast<std::size_t>(layer)];
}
/// False for a layer at the end that reads the pages of an earlier one (pages_of_layer).
inline bool has_kv_pages(const ModelShape& shape, std::int64_t layer) {
  return layer < shape.layers - shape.sharing_layers;
}
/// Returns the layer whose pages a layer reads: itself, or the last one of its kind that has pages.
std::int64_t pages_of_layer(const ModelShape& shape, const Details& details, std::int64_t layer);

/// Reads the details. `shape` must come from read_shape of this file, which calls this too.
/// kUnsupported: the header requests something that is not computed, by the key's name.
/// kFileInvalid: out of range.
Result<Details> read_details(const gguf::File& file, const ModelShape& shape);

}  // namespace holdfast::plan
