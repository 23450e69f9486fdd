#pragma once
// What the architectures have in common and where they differ, as one table: a family is a row.
// docs/adding-a-model.md says how to add one. Tensor and key names are the GGUF specification's.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/plan/plan.h"

namespace holdfast::plan {

enum class NormKind : std::uint8_t { kRms, kLayer };
/// silu(x), x (1 + tanh(√(2/π)(x + 0.044715 x³))) / 2, x (1 + erf(x / √2)) / 2, max(x, 0)²; of
/// kSwigluOai, which has a gate, g σ(1.702 g) (u + 1) with g at most 7 and u within ±7 (gpt-oss's
/// model card).
enum class Activation : std::uint8_t { kSilu, kGeluTanh, kGeluErf, kSwigluOai, kReluSquared };
/// Norms of queries and keys: over each head's elements, or over the heads of a token together.
enum class QkNorm : std::uint8_t { kNone, kHeads, kRow };
/// Whether tensors or keys of a kind occur.
enum class Use : std::uint8_t { kNo, kMay, kMust };
/// What makes a score of each of the router's products: softmax over all, or each one's sigmoid.
enum class Router : std::uint8_t { kSoftmax, kSigmoid };

/// Recurrent layers between those that attend: a gated delta net (Yang et al. 2024, "Gated Delta
/// Networks"). kNeighbours: heads of values that share a head of keys stand side by side, and so do
/// their two gates, in one tensor. kApart: the i-th head of values has the i-th head of keys,
/// modulo their number; each kind of gate has its tensor.
enum class DeltaNet : std::uint8_t { kNone, kNeighbours, kApart };

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
  std::string_view ffn_norm = "ffn_norm";  // what pre_norm's second one is called
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_left_out = false;  // by some of its models
  Activation activation = Activation::kSilu;
  bool gated = true;           // down(act(gate) * up), else down(act(up))
  bool fused_qkv = false;      // what its converters write; either is read
  bool fused_gate_up = false;  // ffn_up holds the gate's rows, then up's
  Use qkv_bias = Use::kMay;
  Use out_bias = Use::kNo;
  Use ffn_bias = Use::kNo;
  bool sinks = false;  // attn_sinks: of each head a score that takes weight and gives no value
  // The embedding.
  bool positions = false;       // position_embd is added
  bool token_types = false;     // row 0 of token_types is added
  bool embedding_norm = false;  // token_embd_norm
  bool embedding_sqrt = false;  // times √width
  bool scale_keys = false;      // embedding, residual and logit (divisor) scales from keys
  bool logit_factor = false;    // key logit_scale: logits are multiplied by it
  // Layers that see the last `window` tokens alone: all but every period-th one (1: all). 0: a
  // header with a window must name them.
  std::int64_t window_period = 0;
  std::int64_t window = 0;            // where the header has none
  double window_rope_base = 0;        // 0: as the other layers
  bool window_rope_unscaled = false;  // rope scaling is for the other layers alone
  bool yarn_whole_pairs = true;       // yarn's ramp begins and ends at a pair, not between two
  std::int64_t no_rope_step = 0;      // every n-th layer does not rotate
  bool rope_in_windows = false;       // where some layers have windows, they alone rotate
  // Positions of several parts (time, height, width), which are the same number for text.
  bool rope_sections = false;
  bool temperature = false;  // key attention.temperature_scale: far queries count for more
  double attention_cap = 0;  // where the header has none
  double logit_cap = 0;
  double attention_scale = 0;          // where the header has none; 0 = 1/√head_dim
  std::int64_t wide_scale_layers = 0;  // with that many layers scores are divided by √(width/heads)
  // Experts.
  Use experts = Use::kNo;
  bool expert_weights_norm = true;  // chosen weights sum to 1, where the header does not say
  Use shared_expert = Use::kNo;
  bool shared_gate = false;          // ffn_gate_inp_shexp: the shared expert times a sigmoid
  bool expert_bias = false;          // of the router and of every expert's three products
  Router router = Router::kSoftmax;  // where the header does not say
  Use choice_bias = Use::kNo;  // exp_probs_b: added to scores to choose experts, not to weigh them
  bool expert_groups = false;  // keys expert_group_count, expert_group_used_count
  bool dense_first = false;    // key leading_dense_block_count: layers without experts
  bool next_layers = false;    // key nextn_predict_layers: the last ones, which text does not need
  bool encoder = false;        // every token sees all; vectors come out, no logits
  DeltaNet delta = DeltaNet::kNone;  // keys full_attention_interval, ssm.*
  /// Latent attention (DeepSeek-V2, arXiv 2405.04434), with the products that go from a head to the
  /// latent numbers and back: attn_k_b, attn_v_b.
  bool latent = false;
  /// Windowed layers have heads and rotations of their own (keys attention.*_swa, rope.*_swa), any
  /// layer its own feed_forward_length; the last ones may read the pages of earlier ones of their
  /// kind (key attention.shared_kv_layers); without attn_v values are what keys are made of.
  bool uneven = false;
  bool value_norm = false;      // of each head's values, by no weights
  bool layer_inputs = false;    // key embedding_length_per_layer_input: per_layer_*, inp_gate, proj
  bool layer_scale = false;     // layer_output_scale: of the row behind a layer
  bool experts_beside = false;  // a feed-forward beside the experts, each with norms of its own
  bool gated_heads = false;     // attn_q has a gate behind each head: its output times a sigmoid
};

/// nullptr for an architecture that nothing here runs.
const Family* find_family(std::string_view architecture);
const std::vector<Family>& families();

/// How positions turn queries and keys in one kind of layer.
struct RopeSpec {
  double base = 10000;
  std::int64_t dims = 0;  // elements of a head that turn
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  std::int64_t original_context = 0;
  double low_factor = 1;    // llama3
  double high_factor = 4;   // llama3
  double ext_factor = 1;    // yarn: how much of the blend, 1 = all
  double beta_fast = 32;    // yarn
  double beta_slow = 1;     // yarn
  bool whole_pairs = true;  // yarn
  double magnitude = 1;     // cos and sin are multiplied by it
  // Queries are multiplied by 1 + temperature × ln(1 + ⌊position / original_context⌋).
  double temperature = 0;
  bool operator==(const RopeSpec&) const = default;
};

enum class Pooling : std::uint8_t { kNone, kMean, kCls, kLast };

/// What a program needs to know of a model beside its sizes: the family with what this header and
/// these tensors say. Not kept in the database; the worker reads it from the file.
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
  std::int64_t window = 0;     // tokens seen, the own one included
  std::vector<bool> windowed;  // [layers]
  std::vector<bool> rotated;   // [layers]
  RopeSpec rope;
  RopeSpec window_rope;  // of windowed layers
  // Of families with uneven layers.
  std::vector<std::int64_t> ff;       // [layers]; empty: ModelShape's
  std::vector<bool> keys_for_values;  // [layers]: no attn_v; empty: none
  bool layer_scale = false;
  bool gate_up_experts = false;  // ffn_gate_up_exps: of each expert gate's rows, then up's
  bool expert_weights_norm = true;
  double expert_weights_scale = 1;
  Router router = Router::kSoftmax;
  bool choice_bias = false;
  // Experts are chosen from so many groups of neighbours, those whose two best scores are the
  // largest together. 1 of 1: from all.
  std::int64_t expert_groups = 1;
  std::int64_t expert_groups_used = 1;
  std::int64_t position_rows = 0;
  std::int64_t type_rows = 0;
  bool pooling_named = false;
  Pooling pooling = Pooling::kNone;
};

/// Of a layer: how its heads differ from others'.
inline bool has_window_heads(const ModelShape& shape, const Details& details, std::int64_t layer) {
  return shape.window_head_dim > 0 && details.windowed[static_cast<std::size_t>(layer)];
}
inline KvHeads heads_of_layer(const ModelShape& shape, const Details& details, std::int64_t layer) {
  return has_window_heads(shape, details, layer) ? window_heads(shape) : plain_heads(shape);
}
inline std::int64_t ff_of_layer(const ModelShape& shape, const Details& details,
                                std::int64_t layer) {
  return details.ff.empty() ? shape.ff : details.ff[static_cast<std::size_t>(layer)];
}
inline bool has_keys_for_values(const Details& details, std::int64_t layer) {
  return !details.keys_for_values.empty() &&
         details.keys_for_values[static_cast<std::size_t>(layer)];
}
inline bool has_own_pages(const ModelShape& shape, std::int64_t layer) {
  return layer < shape.layers - shape.sharing_layers;
}
/// The layer whose pages a layer reads: itself, or the last one of its kind that has some.
std::int64_t pages_of_layer(const ModelShape& shape, const Details& details, std::int64_t layer);

/// `shape` must come from read_shape of this file, which calls this too. kUnsupported: the header
/// asks for something that is not computed, by the key's name. kFileInvalid: out of range.
Result<Details> read_details(const gguf::File& file, const ModelShape& shape);

}  // namespace holdfast::plan
