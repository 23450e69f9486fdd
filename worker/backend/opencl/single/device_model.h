#pragma once
// A program as it was loaded on one device: its operations with the places of their weights, KV
// pages, scratch memory and kernels.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/backend/api/load.h"
#include "worker/backend/cpu/kernels.h"
#include "worker/backend/opencl/clblast/dense_products.h"
#include "worker/backend/opencl/device/limits.h"
#include "worker/backend/opencl/device/sources.h"
#include "worker/backend/opencl/single/weights.h"

namespace holdfast::opencl {

/// The revision of the kernels in the numerics class; it changes whenever the bits of any kernel
/// change on any device.
inline constexpr char kKernelsRev[] = "r2";

/// A matrix of an operation and the column of the result at which it begins. One slot of an
/// operation's weights may hold several matrices (q, k, v of different types).
struct Product {
  DeviceMatrix matrix;
  std::int32_t column = 0;
};

/// True if one launch may do both products: two matrices of different formats whose columns follow
/// one another.
bool can_concat(const std::vector<Product>& products);

/// One operation with its weights on the device. `*_at` members are offsets into Weights::vectors
/// in floats, -1 where there is no such vector.
struct DeviceOp {
  model::OpKind kind = model::OpKind::kEmbed;
  std::int32_t layer = -1;
  std::int32_t cache_layer = -1;  // index of the layer among those with pages, or with states
  std::vector<Product> products;  // q, k, v; gate and up; or a single one
  std::vector<Product> others;    // kNormQkv: gates of heads; kNormDelta: z, then the gates
  plan::NormKind norm_kind = plan::NormKind::kRms;
  std::int32_t norm_at = -1, norm_bias_at = -1;
  // Biases of q, k and v together; of the only product; of gate and up; of all experts in sequence.
  std::int32_t bias_at[2] = {-1, -1};
  std::int32_t head_norm_at[2] = {-1, -1};  // q, k
  std::int32_t gate_at = -1;                // kRoute: weights of the shared expert's gate
  std::int32_t choice_at = -1;              // kRoute: bias added to scores where experts are chosen
  std::int32_t types_at = -1;               // kEmbedScaleAdd
  std::int32_t sinks_at = -1;               // kAttention
  std::int32_t conv_at = -1, rate_at = -1;  // kDelta
  bool neighbours = false;                  // kDelta: plan::DeltaNet
  bool of_states = false;                   // kOutAdd: its input is a kDelta's result
  bool gates_follow = false;                // kAttention: a kGateHeads reads its rows
  cpu::Activate activate = cpu::Activate::kSilu;
  bool gated = false;  // two products: a gate's and an up's
  bool from_h = false, to_h = false, gate_rows = false, row_norm = false;
  std::int32_t rope = -1;
  std::int32_t window = 0;
  std::int64_t inner = 0;       // kOutAdd, kDownAdd: values in a row of the input
  bool in_shared_rows = false;  // kNormGateUp, kDownAdd: rows are in Scratch::s
  float scale = 1, cap = 0;
  bool norm_inside = false;  // its product norms the rows (kernels/product.cl)
  /// The norm of the next operation, where this one writes the whole of x and may spread it for
  /// that.
  std::int32_t next_norm_at = -1;
  /// kAttention may finish the heads of the kNormQkv before it, so bias_at[0], head_norm_at and
  /// rope are copied from there.
  bool may_finish = false;
  /// Tensor parallel: the columns of the result that this device computes (of an embedding: the
  /// rows that it holds); the others come from the other devices. 0 columns: all of them.
  std::int32_t column = 0, columns = 0;
};

/// Rows of floats on the device, `stride` floats from one to the next.
struct Rows {
  Buffer buffer;
  std::int32_t stride = 0;
  cl_mem get() const { return buffer.get(); }
  RowsAt at() const { return {buffer.get(), stride}; }
};

/// Device memory of a forward pass. What a model does not need is not allocated.
struct Scratch {
  Rows x;                       // [batch]: the residual
  Rows h;                       // [max(batch, logit rows)]
  Rows squares;                 // [batch]: sums of the squares of x by panels, padded to 16 of them
  Rows qkv;                     // [batch]: heads of q, of k, of v, each head_pad long
  Rows a;                       // [batch]
  Rows f;                       // [batch]
  Rows m, z, gates, v;          // [batch]: of recurrent layers; z also gates attention's heads
  Buffer states;                // [states][layers][plan::state_floats]
  Rows s;                       // [batch]: f of shared experts, where layers without experts use f
  Rows logit_inputs;            // [logit rows]: rows of x that logits are computed of
  Rows logits;                  // [logit rows], stride = vocab
  Buffer best;                  // [logit rows]: index of the greatest logit; then pairs for each
                                // of its parts (kernels/rows.cl)
  Rows top;                     // [logit rows]: kTopMost pairs of a logit and its index
  Rows scores;                  // [batch]: scores of experts
  Rows e;                       // [batch * used]: f of the experts
  Rows d;                       // [batch * used]: results of the experts
  Buffer expert, weight, gate;  // [batch * used], [batch * used], [batch]
  Buffer inputs;                // the next three, which one write fills
  MemoryHandle runs;            // StateRun [segments]
  MemoryHandle tokens;          // int4 [batch]: id, position, start of the page table, end of what
                                // the token sees
  MemoryHandle tables;          // page tables of all segments, then batch rows of the logits
  Buffer attention_partials;    // results of splits of attention; none: short contexts
  Buffer rope_table[2];  // cos [context][pairs], then sin; then the same for queries, if they have
                         // their own
};

/// A kernel for each entry of rows_shared().
using RowsKernels = std::array<KernelHandle, kRowsKernels>;

/// Kernels of one weight format.
struct ProductKernels {
  RowsKernels one, pair;
  KernelHandle tile, embed;
};

/// The kernels of a load. `concat`: two formats in one launch.
struct KernelSet {
  std::array<ProductKernels, static_cast<std::size_t>(cpu::Format::kCount)> product;
  std::map<std::pair<cpu::Format, cpu::Format>, RowsKernels> concat;
  KernelHandle spread, norm_rms, norm_layer, gather, rescale, best_parts, best, top_k, int8_rows;
  KernelHandle finish_head, attention, merge_splits;
  KernelHandle choose_experts, open_gate, add_slots;
  KernelHandle delta, gate_heads;
};

/// Products by CLBlast, of a load that was opened with these kernels (dense.cpp).
struct DenseModel {
  bool used = false;
  std::optional<DenseProducts> products;
  Buffer rows;       // [kDenseRows][k]: a block of rows
  Buffer weights;    // [columns][k]: some columns' weights as floats
  Buffer sums;       // [kDenseRows][columns]
  Buffer temporary;  // CLBlast's own copies
  std::array<KernelHandle, static_cast<std::size_t>(cpu::Format::kCount)> unpack;
  KernelHandle pad_rows, finish_rows;
};

/// The columns of a product by CLBlast with rows of `k` values; the last of a matrix may have
/// fewer. They follow from k alone, so that the bits of a row do.
constexpr std::int64_t dense_columns(std::int64_t k) {
  const std::int64_t fit = kDenseFloatsMost / k / kDenseColumnsStep * kDenseColumnsStep;
  return std::clamp(fit, kDenseColumnsStep, kDenseColumnsMost);
}

/// Where the parts of Scratch::inputs begin, in bytes; the runs are first.
struct InputsAt {
  std::uint64_t tokens = 0, tables = 0, end = 0;
};

/// How a router chooses experts and weighs them.
struct ExpertNumbers {
  bool norm = true;
  float scale = 1;
  plan::Router router = plan::Router::kSoftmax;
  std::int32_t groups = 1, groups_used = 1;
};

/// Sizes of recurrent layers' states.
struct StateNumbers {
  std::int64_t floats = 0;  // of one layer's state
  std::int64_t layers = 0;
  std::int32_t items = 0;  // of a work-group of kernels/delta.cl
};

/// The loaded program. Made by Loader; steps change the memory of the device alone.
struct DeviceModel {
  DeviceModel(std::shared_ptr<DeviceContext> context, const model::Program& program,
              const backend::LoadOptions& options, cpu::KvType kv);

  /// True if steps give rows of logits: the program has the output matrix, and no bits forbid it.
  bool gives_logits() const { return shape.causal && ends && !dense.used; }

  std::shared_ptr<DeviceContext> device_context;  // first: the members below live on it
  KernelCapabilities capabilities;
  plan::ModelShape shape;
  backend::Limits limits;
  cpu::KvType kv_type;
  ExpertNumbers experts;
  bool has_query_rope = false;
  bool ends = true;            // has the output matrix and the logits
  std::int32_t vocab = 0;      // rows of the output on this device
  std::int64_t all_heads = 0;  // heads of q on all devices
  std::int32_t head_pad = 0, pairs = 0;
  std::uint64_t page_bytes = 0;  // of one layer's keys or values

  StateNumbers states;
  Queue queue;
  DenseModel dense;
  Weights weights;
  std::vector<Buffer> keys, values;  // [layers]
  Scratch scratch;
  InputsAt inputs_at;
  KernelSet kernels;
  std::vector<DeviceOp> ops;
  std::size_t for_all = 0;  // model::operations_for_all
  backend::Memory memory;
  std::uint64_t bytes_required = 0;  // that the load takes or has taken
};

}  // namespace holdfast::opencl
