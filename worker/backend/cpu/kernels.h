#pragma once
// The kernels of one instruction set as function pointers. Families are compiled from the same
// sources (matmul.inc, dots.inc, attention.inc, rows.inc) over a 16-lane vector type, so they
// perform the same operations in the same order: their results are equal bit for bit. Only amx and
// avx512bf16 differ, in their products (amx also in attention): they are numerics classes of their
// own. Where a processor has one of them, it serves prefill-heavy sequences, and avx512 the others.
//
// Thread rule: every function is pure apart from its outputs; callers give threads disjoint ones.
// Activation rows are zero-padded to a multiple of 32 floats.

#include <cstdint>

#include "shared/plan/kernel_sizes.h"
#include "worker/weights/activations.h"
#include "worker/weights/layout.h"

namespace holdfast::cpu {

// Sizes on which memory depends (shared/plan/kernel_sizes.h).
using plan::attention_scratch_floats;
using plan::attention_tile_floats;
using plan::delta_scratch_floats;
using plan::kAttentionQueriesMost;
using plan::kDeltaTokens;
using plan::kItemPanelsMost;
using plan::kTilePanels;
using plan::kUnpackFloats;

inline constexpr std::int64_t kSplitTokens = 512;  // attention splits, at absolute positions
inline constexpr int kTileK = 256;                 // k that a wide product unpacks at once
static_assert(kUnpackFloats >= kTilePanels * kTileK * kLanes);

/// True if this processor reads memory faster in one run of lines than in a few interleaved ones,
/// as AMD's do. Changes no bit.
bool reads_in_one_run();

/// One matrix product: y[m][ (p - p0) * 16 + lane ] for panels [p0, p1). With weights of 16 or 32
/// bits each output is a chain of fused multiply-adds with the floats of `x` over k in order from
/// +0; with quantised ones dots.inc defines it, with `q`. The families amx and avx512bf16 multiply
/// as their products.inc say.
struct MatmulArgs {
  const PackedMatrix* w = nullptr;
  std::int64_t p0 = 0;
  std::int64_t p1 = 0;
  const float* x = nullptr;  // [rows][x_stride]
  std::int64_t x_stride = 0;
  const std::uint8_t* q = nullptr;  // rows of the weights' ActivationFormat, q_stride bytes apart
  std::int64_t q_stride = 0;
  std::int64_t rows = 0;
  float* y = nullptr;  // [rows][y_stride], column 0 is panel p0
  std::int64_t y_stride = 0;
  float* scratch = nullptr;  // kUnpackFloats, 64-byte aligned
  // Panels that this thread will probably multiply with next: prefetched meanwhile. Null: unknown.
  const PackedMatrix* next = nullptr;
  std::int64_t next_p0 = 0;
  std::int64_t next_p1 = 0;
  bool int8 = false;                  // q's rows are int8, in families with that format
  bool one_run = reads_in_one_run();  // small batches read one panel after the other
};

inline constexpr std::int64_t kHeadDimMost = 1024;

/// The type of keys and values in pages (kv.inc).
enum class KvType : std::uint8_t { kF32, kF16, kBF16, kInt8, kFp8 };

/// Bytes of one head's keys or values in a page.
constexpr std::int64_t head_page_bytes(KvType type, std::int64_t head_pad) {
  return kPageTokens * (type == KvType::kF32    ? 4 * head_pad
                        : type == KvType::kInt8 ? head_pad + 4
                        : type == KvType::kFp8  ? head_pad
                                                : 2 * head_pad);
}

/// Attention of `tokens` consecutive tokens for the `group` query heads of one kv head.
struct AttentionArgs {
  const std::uint8_t* k = nullptr;  // this layer's and head's part of page 0: [head_dim][64]
  const std::uint8_t* v = nullptr;  // [64][head_pad]
  std::int64_t page_bytes = 0;      // from page to page, both for k and v
  const std::int32_t* pages = nullptr;
  KvType kv = KvType::kF32;
  const float* q = nullptr;  // [tokens][q_stride], heads head_pad apart
  std::int64_t q_stride = 0;
  float* out = nullptr;  // [tokens][out_stride], heads head_dim apart
  std::int64_t out_stride = 0;
  std::int64_t start = 0;  // position of the first token
  std::int32_t tokens = 0;
  std::int32_t group = 0;
  std::int32_t head_dim = 0;
  std::int32_t head_pad = 0;  // head_dim rounded up to 16
  float scale = 0;
  float* scratch = nullptr;            // attention_scratch_floats
  const std::uint8_t* then = nullptr;  // keys that the next call reads first, or null; prefetched
  // Read by `attention_ranged` alone.
  std::int64_t window = 0;         // a token sees itself and the window - 1 tokens before; 0 = all
  std::int64_t noncausal_end = 0;  // every token sees positions [0, noncausal_end); 0 = causal
  float cap = 0;                   // soft cap of the scores; 0 = none
  const float* sinks = nullptr;    // [group] an extra score of each head's softmax; or null
};

/// Bytes of the operands of products_alone: two tiles of amx.
inline constexpr std::size_t kAloneBytes = 2048;

/// An activation that a product applies to its output.
enum class Activate : std::uint8_t { kSilu, kGeluTanh, kGeluErf, kSwigluOai, kReluSquared };

/// The RoPE table's row of one position: cos[pairs], sin[pairs].
struct RopeRow {
  const float* cos = nullptr;
  const float* sin = nullptr;
  std::int32_t pairs = 0;
  bool neox = false;
};

/// Arguments for one head of a gated delta net over consecutive tokens of one sequence (delta.inc).
/// Rows have kLanes readable floats after their last column.
struct DeltaArgs {
  std::int64_t first = 0;   // first token; those before were computed by an earlier call
  std::int64_t tokens = 0;  // end of the tokens
  std::int64_t keys = 0;    // elements of a query and a key
  std::int64_t values = 0;
  int taps = 0;               // of the convolution
  const float* in = nullptr;  // [tokens][in_stride]: input of the convolution
  std::int64_t in_stride = 0;
  const float* before = nullptr;  // [taps - 1][row_stride]: rows before the first; null: zeros
  float* after = nullptr;         // the same rows for the next call
  std::int64_t row_stride = 0;
  const float* conv = nullptr;  // [taps][conv_stride]
  std::int64_t conv_stride = 0;
  std::int64_t at_q = 0, at_k = 0, at_v = 0;  // columns of q, k and v in a row of `in`
  bool writes_query_key = true;               // also writes `after` for its query and key
  const float* gates = nullptr;               // [tokens][gate_stride]
  std::int64_t gate_stride = 0;
  std::int64_t at_beta = 0, at_alpha = 0;
  float rate = 0, step_bias = 0;  // decay = exp(rate softplus(alpha + step_bias))
  float* state = nullptr;         // [keys][values to 16], read and written
  const float* norm = nullptr;    // [values padded to 16], zeros after the values
  float eps = 0;
  const float* z = nullptr;  // [tokens][z_stride]
  std::int64_t z_stride = 0;
  float* out = nullptr;  // [tokens][out_stride]
  std::int64_t out_stride = 0;
  float* scratch = nullptr;  // delta_scratch_floats
};

/// The encoding of activation rows that some products take, in blocks of 32 values.
struct ActivationFormat {
  void (*make)(const float* x, std::int64_t n, std::uint8_t* out);  // n floats, a multiple of 32
  std::int64_t block_bytes;  // at most sizeof(ActivationBlock)
};

/// The functions of a family. A family that lacks one has that of a smaller family.
struct Kernels {
  const char* name;
  /// Numerics class: families with the same value have the same bits. "int15", "bf16", "pairs", or
  /// two of them, for decode-heavy and for prefill-heavy segments.
  const char* numerics;
  void (*matmul)(const MatmulArgs& args);
  /// The format of `q` for products with such weights; null: they take the floats of `x`. `int8`:
  /// for products with MatmulArgs::int8; families with one format return that.
  const ActivationFormat* (*activation_format)(Format format, bool int8);
  /// out[cols] = row `row` of the matrix as floats.
  void (*unpack_row)(const PackedMatrix& w, std::int64_t row, float* out);
  /// out = x / sqrt(mean(x^2) + eps) * w; all zero-padded to 16.
  void (*rmsnorm)(const float* x, const float* w, std::int64_t n, float eps, float* out);
  /// y += b over n floats, n a multiple of 16.
  void (*add)(float* y, const float* b, std::int64_t n);
  /// gate = silu(gate) * up over n floats, n a multiple of 16.
  void (*silu_mul)(float* gate, const float* up, std::int64_t n);
  /// Rotates `pairs` pairs of a head's elements in place by a position's angles.
  void (*rope)(float* head, const RopeRow& row);
  /// Stores one token of one head into its page: k_page[d][slot], v_page[slot][d].
  void (*store_key)(const float* k, std::int32_t head_dim, std::int32_t slot, KvType type,
                    std::uint8_t* k_page);
  void (*store_value)(const float* v, std::int32_t head_pad, std::int32_t slot, KvType type,
                      std::uint8_t* v_page);
  void (*attention)(const AttentionArgs& args);
  /// out = e^x over n floats, n a multiple of 16: the function that attention and silu use.
  void (*exp)(const float* x, float* out, std::int64_t n);
  /// The greatest of n values, none of which may be NaN.
  float (*max_of)(const float* x, std::int64_t n);
  /// False if a value is NaN or infinite.
  bool (*all_finite)(const float* x, std::int64_t n);
  /// Attention with a window, without a causal mask, with capped scores, or with sinks.
  void (*attention_ranged)(const AttentionArgs& args);
  /// out = (x - mean) / sqrt(variance + eps) * w + b over n floats, all zero-padded to 16; b may be
  /// null, out may be x.
  void (*layernorm)(const float* x, const float* w, const float* b, std::int64_t n, float eps,
                    float* out);
  /// rmsnorm over rows stored as `stored` floats (a multiple of 16, zeros among them) of which n
  /// count. out may be x.
  void (*rmsnorm_spread)(const float* x, const float* w, std::int64_t stored, std::int64_t n,
                         float eps, float* out);
  /// gate = act(gate) * up over n floats, n a multiple of 16; up may be null where the activation
  /// needs none: gate = act(gate).
  void (*activate)(Activate act, float* gate, const float* up, std::int64_t n);
  /// y += s * b over n floats, n a multiple of 16.
  void (*add_scaled)(float* y, const float* b, float s, std::int64_t n);
  /// y *= s, then y = cap * tanh(y / cap) if cap > 0, over n floats, n a multiple of 16.
  void (*scale_cap)(float* y, float s, float cap, std::int64_t n);
  void (*delta)(const DeltaArgs& args);
  /// y *= sigmoid(g) over n floats, n a multiple of 16.
  void (*sigmoid_mul)(float* y, const float* g, std::int64_t n);
  /// Multiplies numbers that are in registers, as matmul does with such weights and rows: the
  /// yardstick of matmul. `lines` holds kAloneBytes of operands, 64-byte aligned, and receives the
  /// sums. Returns the number of multiplications and additions.
  double (*products_alone)(Format format, bool int8, std::int64_t rounds, std::uint8_t* lines);
  std::int32_t attention_queries = 32;
  /// Panels in a work item of a wide product, at most kItemPanelsMost.
  std::int64_t item_panels = kTilePanels;
  /// The family for prefill-heavy segments: the same layout and the same functions except products
  /// and attention. Null: this family.
  const Kernels* prefill_heavy = nullptr;
  /// Capabilities::prefill_heavy_ratio: the ratio at which both kernel classes take equally long,
  /// for one stream. 0: there is one class.
  std::int64_t prefill_heavy_ratio = 0;
};

/// The table of each family. Calling a function of one that the processor cannot run is a fault of
/// the process.
const Kernels& scalar_kernels();
const Kernels& avx2_kernels();
const Kernels& avxvnni_kernels();
const Kernels& avx512_kernels();
const Kernels& avx512_amx_int8_kernels();  // for processors with AMX-INT8
const Kernels& avx512bf16_kernels();
const Kernels& avx512bf16_emulated_kernels();
const Kernels& amx_kernels();
const Kernels& amx_emulated_kernels();

}  // namespace holdfast::cpu
