#pragma once
// Plans from a model's header: its shape, its memory, its numerics class. Shared by daemon (through
// the ingress helper), worker and CLI, so that their numbers agree.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/kv_page.h"
#include "shared/gguf/gguf.h"

namespace holdfast::plan {

enum class RopeStyle : std::uint8_t { kNone, kNorm, kNeox };  // adjacent pairs | halves
/// The rule that changes rotary frequencies for contexts longer than those of training.
enum class RopeScaling : std::uint8_t { kNone, kLinear, kLlama3, kYarn, kLongrope };

/// Hyper-parameters, read once and cross-checked against the tensors (`read_shape`).
struct ModelShape {
  std::string architecture;  // a row of shared/plan/family.h
  std::string name;          // general.name
  std::int64_t layers = 0;   // computed ones
  std::int64_t width = 0;    // embedding_length
  std::int64_t ff = 0;       // feed_forward_length
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;  // key_length
  std::int64_t vocab = 0;
  std::int64_t context = 0;  // context_length of training
  double norm_eps = 1e-5;
  RopeStyle rope_style = RopeStyle::kNorm;
  std::int64_t rope_dims = 0;
  double rope_base = 10000;
  RopeScaling rope_scaling = RopeScaling::kNone;
  double rope_factor = 1;  // linear: positions are divided by it
  std::int64_t rope_original_context = 0;
  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool qk_norm = false;
  bool qk_norm_row = false;       // one norm over all heads of a token
  std::int64_t experts = 0;       // of a layer; 0 = dense
  std::int64_t experts_used = 0;  // by a token
  std::int64_t expert_ff = 0;     // rows of one expert
  std::int64_t shared_ff = 0;     // rows of the shared expert; 0 = none
  std::int64_t dense_layers = 0;  // of a model with experts: the first layers, which have none
  std::int64_t left_layers = 0;   // after the computed ones: in the file, never read
  std::int64_t rope_tables = 1;   // 2: windowed layers have another rotation
  // Models with recurrent layers (gated delta net): every attention_step-th layer attends, the
  // others carry a state. 0 = all attend.
  std::int64_t attention_step = 0;
  std::int64_t state_heads = 0;   // of values
  std::int64_t state_groups = 0;  // heads of queries and keys
  std::int64_t state_key = 0;     // elements of a key
  std::int64_t state_value = 0;   // elements of a value
  std::int64_t conv_taps = 0;     // tokens that the convolution covers
  // Models with latent attention: pages hold `latent` numbers and a rotated part for a token, which
  // all heads share; head_dim is their sum, and kv_heads 1. 0 = none.
  std::int64_t latent = 0;
  std::int64_t q_latent = 0;    // the source of queries; 0 = the row itself
  std::int64_t head_key = 0;    // elements of a head's query, the rotated ones last
  std::int64_t head_value = 0;  // elements of a head's result
  // Models whose windowed layers have their own heads. 0 = same as the other layers.
  std::int64_t window_head_dim = 0;
  std::int64_t window_kv_heads = 0;
  std::int64_t window_rope_dims = 0;
  std::int64_t window_layers = 0;   // those that have pages
  std::int64_t sharing_layers = 0;  // the last ones, which have no pages and read other layers'
  std::int64_t layer_input = 0;     // numbers of a token that each layer gets besides the row
  bool causal = true;               // false: an encoder, whose whole input is computed in one step
  bool has_rope_freqs = false;      // tensor rope_freqs.weight (llama 3)
  bool has_chat_template = false;
  bool has_tokenizer = false;
  std::uint64_t weights_bytes = 0;  // as the CPU backend packs them: about the file's
  std::uint64_t load_bytes = 0;     // more than those while matrices are made and packed
  std::uint64_t parameters = 0;
  std::string file_type;  // most common weight type by bytes, "Q8_0"
};

/// Returns the rows of the widest dense feed-forward; 0 in a model with experts alone.
inline std::int64_t dense_ff(const ModelShape& shape) {
  const bool dense = shape.experts == 0 || (shape.dense_layers > 0 && shape.ff > shape.shared_ff);
  const std::int64_t ff = dense ? shape.ff : shape.shared_ff;
  return ff > shape.layer_input ? ff : shape.layer_input;
}

/// True if a layer carries a state from token to token instead of attending: all but each
/// attention_step-th layer.
inline bool is_recurrent(const ModelShape& shape, std::int64_t layer) {
  return shape.attention_step > 0 && (layer + 1) % shape.attention_step != 0;
}
/// Returns the number of layers with KV pages.
inline std::int64_t attention_layers(const ModelShape& shape) {
  return shape.attention_step > 0 ? shape.layers / shape.attention_step
                                  : shape.layers - shape.sharing_layers;
}
/// Returns the width of a windowed layer's heads, which is head_dim unless the model gives another.
inline std::int64_t window_head_dim(const ModelShape& shape) {
  return shape.window_head_dim > 0 ? shape.window_head_dim : shape.head_dim;
}
/// Key and value heads of one kind of layer.
struct KvHeads {
  std::int64_t layers = 0;  // with pages
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
};
/// Returns the heads of windowed layers where these differ from the others, else none.
inline KvHeads window_heads(const ModelShape& shape) {
  if (shape.window_head_dim == 0) return {};
  return {shape.window_layers, shape.window_kv_heads, shape.window_head_dim};
}
/// Returns the heads of all other layers.
inline KvHeads plain_heads(const ModelShape& shape) {
  return {attention_layers(shape) - window_heads(shape).layers, shape.kv_heads, shape.head_dim};
}
/// Returns the index of a layer among those with pages, or among those with states.
inline std::int32_t cache_layer_index(const ModelShape& shape, std::int32_t layer) {
  if (shape.attention_step == 0 || layer < 0) return layer;
  const auto before = static_cast<std::int32_t>(layer / shape.attention_step);
  return is_recurrent(shape, layer) ? layer - before : before;
}
/// Returns the floats of the widest rows between the products of attention or of a recurrent layer.
inline std::int64_t attention_width(const ModelShape& shape) {
  const std::int64_t full_head = shape.head_dim > shape.head_key ? shape.head_dim : shape.head_key;
  const std::int64_t head = full_head > shape.window_head_dim ? full_head : shape.window_head_dim;
  const std::int64_t values = shape.state_heads * shape.state_value;
  return shape.heads * head > values ? shape.heads * head : values;
}
/// Returns the columns of a recurrent layer's convolution: queries, keys, values.
inline std::int64_t conv_width(const ModelShape& shape) {
  return 2 * shape.state_groups * shape.state_key + shape.state_heads * shape.state_value;
}
/// Returns the floats of a recurrent layer's state of one sequence: `conv_taps - 1` rows of the
/// convolution twice (the ones to read and the ones to write), then [heads][key][value to 16].
inline std::int64_t state_floats(const ModelShape& shape) {
  const auto whole = [](std::int64_t n) { return (n + 15) / 16 * 16; };
  return 2 * (shape.conv_taps - 1) * (whole(conv_width(shape)) + 16) +
         shape.state_heads * shape.state_key * whole(shape.state_value);
}

/// Returns the number of state snapshots for prefixes.
constexpr std::int32_t snapshot_states_of(std::int32_t slots) {
  return slots;
}

/// Returns the number of states in memory: one a slot, the snapshots, and two for a step with draft
/// tokens. Saturates.
constexpr std::int32_t states_of(std::int32_t slots) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  return slots > kMost / 2 - 1 ? kMost : slots + snapshot_states_of(slots) + 2;
}

/// Returns true if a tensor belongs to a layer after the computed ones, is a key or value of a
/// layer that reads another's pages, or belongs to an encoder of images or sound.
bool is_left_out(std::string_view tensor, const ModelShape& shape);
bool is_of_other_input(std::string_view tensor);
/// Returns what is left out of a model, for users: huggingface::notes_of, and encoders in a file.
std::vector<std::string> notes_of(const gguf::File& file);

/// Reads and checks the shape. kUnsupported: an architecture or feature that no backend runs.
/// kFileInvalid: shapes that do not fit together, with the tensor, what it is and what was
/// expected. A missing vocab size is derived from the tokens or the embedding; an embedding stored
/// transposed is refused by shape.
Result<ModelShape> read_shape(const gguf::File& file);

/// Returns one JSON object with every field. The inverse refuses a missing or mistyped one
/// (kFileInvalid), except for fields of later versions, which have defaults.
std::string shape_to_json(const ModelShape& shape);
Result<ModelShape> shape_from_json(std::string_view json);

/// Returns the tokenizer keys and chat template alone (and general.architecture), as a GGUF without
/// tensors. kFileInvalid if there is no tokenizer (ModelShape::has_tokenizer).
Result<std::string> tokenizer_blob(const gguf::File& file);

using holdfast::kPageTokens;
/// Rows of logits in addition to one a slot, to verify draft tokens (worker/engine/draft.h).
inline constexpr std::int32_t kDraftRows = 7;

/// The options of a load. 0 = default.
struct LoadRequest {
  std::int64_t context = 0;      // tokens per sequence; default min(trained context, 4096)
  std::int32_t slots = 0;        // sequences at once; default 16
  std::int64_t pool_tokens = 0;  // KV tokens over all sequences; default slots x context, at most
                                 // what fits memory_limit
  std::string kv_type = "f16";
  std::int64_t prefill_chunk = 0;  // default 512
  std::int32_t threads = 1;
};

/// Bytes by formula, for both the daemon's admission and the worker's check. A test compares it
/// with the allocations of the CPU backend (docs/inside/memory.md). Regions are whole huge pages of
/// 2 MiB.
///   weights = the file's in panels of 16 rows (see packed.h): about its size; a tied embedding
///             is held once.
///   kv      = pages x kPageTokens x attention_layers x kv_heads x 2 x kv_row_bytes(kv_type,
///             head_pad); where windowed layers have heads of their own, the sum of both kinds
///   scratch = the buffers of a ScratchPlan (scratch.h) for batches of prefill_chunk + slots tokens
///             and logits of slots + kDraftRows rows; with recurrent layers also the states of
///             states_of(slots) sequences, to whole huge pages (state_bytes).
///   Encoders (causal false): KV of one layer, prefill_chunk at least the context.
///   tables  = vocab x 200: the tokenizer and the bytes of its tokens for grammars, about
///   load    = what a load takes beyond all of these while it packs matrices that are made (of
///             model folders: quantised ones, experts, rows in another order), largest first
/// All sums saturate instead of wrapping.
struct Envelope {
  std::int64_t context = 0;
  std::int32_t slots = 0;
  std::int32_t pages = 0;
  std::int64_t prefill_chunk = 0;
  std::uint64_t weights = 0;  // as packed
  std::uint64_t kv = 0;
  std::uint64_t scratch = 0;
  std::uint64_t tables = 0;
  std::uint64_t load = 0;
  std::uint64_t total() const;
};
/// Computes the envelope of a load. An unknown kv_type counts as f32, the largest.
Envelope memory_envelope(const ModelShape& shape, const LoadRequest& load_request);

/// Returns the bytes of `head_dim` elements of one token and head in the KV cache (int8 has a scale
/// for each row and head). nullopt for an unknown kv type.
std::optional<std::int64_t> kv_row_bytes(std::string_view kv_type, std::int64_t head_dim);

}  // namespace holdfast::plan
