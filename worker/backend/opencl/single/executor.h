#pragma once
// A program as compiled for an OpenCL device: its weights, KV pages and scratch memory, its
// kernels, and the order in which they run.

#include <array>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "worker/backend/api/backend.h"
#include "worker/backend/api/states.h"
#include "worker/backend/cpu/kernels.h"
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

/// A segment as kernels/delta.cl reads it (its struct Run).
struct StateRun {
  std::int32_t first, tokens, fresh, from, from_second, state, state_second, snapshot_after,
      snapshot_state, pad;
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

struct Token {  // as the kernels read it (Scratch::tokens)
  std::int32_t id, position, table, end;
};

/// Runs a program, or a part of one, on one device. Not thread-safe: one thread drives it.
class OpenclExecutor final : public backend::Executor {
 public:
  Result<const float*> forward(const std::vector<backend::Segment>& segments) override;
  Result<void> rehearse(const std::vector<backend::Segment>& segments) override;
  Result<const float*> compute_deferred_logits(std::int32_t first, std::int32_t n) override;
  const float* hidden(std::int32_t i) const override;
  backend::Memory memory() const override;
  std::string class_prefix() const override;
  std::uint64_t allocations() const override { return buffer_count(); }
  bool gives_best() const override { return shape_.causal; }
  std::int32_t best(std::int32_t row) const override;
  std::int32_t top_most() const override { return shape_.causal ? kTopMost : 0; }
  const backend::Ranked* top(std::int32_t row) const override;

  // A forward pass in steps, for a model over several devices (group.h). begin() takes the batch,
  // run() enqueues operations [first, end) of the program, settle() waits for them. Between the
  // steps, rows move from device to device.
  void begin(const std::vector<backend::Segment>& segments);
  /// Replaces begin() for compute_deferred_logits: the same batch, with other rows of logits.
  void begin_deferred_logits(std::int32_t first, std::int32_t n);
  void run(std::size_t first, std::size_t end);
  /// kModelFailed: the device failed.
  Result<void> settle();
  /// settle(), then the requested logits (and outputs, for hidden()), checked.
  Result<const float*> finish();
  /// Replaces finish() for a batch in micro-batches, each with its own begin(): give() enqueues
  /// reading a micro-batch's logits, which follow `first` rows of earlier ones; conclude() gives
  /// the checked results of all of `segments` at the end.
  void give(std::int32_t first) { read_logits(first); }
  Result<const float*> conclude(const std::vector<backend::Segment>& segments);
  /// Memory of a pass in which rows of x may wait while nothing runs here. Null buffer: it is too
  /// small.
  RowsAt inbox() const;
  /// kNumericsNan: one of the batch's logits or outputs is not finite. logits: [logit rows][vocab].
  Result<void> check_results(const float* logits, std::int64_t vocab, const float* hidden) const;
  const std::vector<DeviceOp>& operations() const { return ops_; }
  /// The number of operations before the first layer, which make x of the tokens; 0 where another
  /// device has them.
  std::size_t leading() const;
  Queue& queue() { return queue_; }
  Result<Staging> take_staging(std::uint64_t bytes, const std::string& what) const {
    return Staging::take(*device_context_->device().api, device_context_->context(), queue_.get(),
                         bytes, what);
  }
  const Scratch& scratch() const { return scratch_; }
  const backend::Limits& limits() const { return limits_; }
  std::int64_t width() const { return shape_.width; }
  std::int64_t batch_rows() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t result_rows(std::size_t op) const;  // the batch's, or expert slots
  std::int32_t logit_row_count() const { return logit_row_count_; }
  bool hidden_requested() const { return hidden_requested_; }
  /// Bytes that the load takes or has taken.
  std::uint64_t bytes_required() const { return bytes_required_; }

 private:
  OpenclExecutor(std::shared_ptr<DeviceContext> device_context, const model::Program& program,
                 const backend::LoadOptions& options, cpu::KvType kv_type);
  friend class Loader;

  /// The destination of a product and its fused epilogue (kernels/product.cl).
  struct Into {
    cl_mem y = nullptr;
    std::int32_t stride = 0;
    std::int32_t columns = 0;  // to be written; 0: all of the matrix
    std::int32_t mode = 0;
    std::int32_t bias_at = -1, second_bias_at = -1;
    float scale = 1, cap = 0;
    bool gate_rows = false;
    std::int32_t next_norm_at = -1;  // y is x, and is spread for this norm
    bool pack_int8 = false;          // only products read y: it is stored as int8 rows
  };
  /// The rows of a product's input.
  struct From {
    cl_mem x = nullptr;
    std::int32_t stride = 0;
    std::int32_t rows = 0;
    std::int32_t share = 1;  // rows of the result for each row of x; above 1 they are expert slots
    bool slots = false;      // each row has its own matrix, by Scratch::expert
    bool spread = false;     // x times the norm's weights; Scratch::squares has the rest
  };
  /// The RoPE table of an operation's heads.
  struct RopeTable {
    cl_mem table = nullptr;
    std::uint64_t sin_at = 0, q_at = 0;
    std::int32_t pairs = 0, neox = 0;
  };
  /// A product's second matrix, in the same launch.
  struct Second {
    const DeviceMatrix* matrix = nullptr;  // null: none
    bool concat = false;                   // its columns follow the first one's; else a pair
  };

  static constexpr std::int32_t kBest = -1;

  /// Where the parts of Scratch::inputs begin, in bytes; the runs are first.
  struct InputsAt {
    std::uint64_t tokens = 0, tables = 0, end = 0;
  };

  // batch.cpp
  void plan_batch(const std::vector<backend::Segment>& segments);
  void plan_logit_rows(const std::vector<backend::Segment>& segments);
  std::size_t last_needed() const;
  bool marks(std::int32_t layer) const;
  Error bad_row(std::int32_t token) const;
  Result<const float*> checked();
  void read_logits(std::int32_t first);
  void read_top(std::int32_t first);
  Result<void> check_top() const;

  // inputs.cpp
  void send_inputs();
  void send_logit_rows();

  // prepare.cpp
  void prepare(std::int32_t rows);

  // forward.cpp: one method for each operation.
  void run_op(const DeviceOp& op);
  void embed(const DeviceOp& op);
  void embed_scale_add(const DeviceOp& op);
  void qkv(const DeviceOp& op);
  void qk_norm(const DeviceOp& op);
  void attend(const DeviceOp& op);
  std::int32_t sides() const;
  void out_or_down(const DeviceOp& op, const Rows& in, bool are_int8_rows);
  const Rows& rows_of_f(const DeviceOp& op) const {
    return op.in_shared_rows ? scratch_.s : scratch_.f;
  }
  void gate_up(const DeviceOp& op);
  bool gated_products(const DeviceOp& op, const From& from, Into into);
  void logits(const DeviceOp& op);
  void route(const DeviceOp& op);
  void expert_gate_up(const DeviceOp& op);
  void expert_down(const DeviceOp& op);

  // states.cpp
  void plan_states(const std::vector<backend::Segment>& segments);
  void norm_delta(const DeviceOp& op);
  void delta(const DeviceOp& op);
  void gate_heads();

  // launch.cpp: one kernel each.
  void look_up(const Product& from, std::int32_t first_row, bool by_position, bool add,
               float scale);
  static bool are_pair(const DeviceMatrix& a, const DeviceMatrix& b);
  const KernelHandle& kernel_of(const DeviceMatrix& m, const Second& second,
                                std::size_t shared) const;
  bool in_tiles(const From& from) const;
  void tiles(const DeviceOp& op, const Product& p, const From& from, const Into& into);
  void product(const DeviceOp& op, const Product& p, const From& from, const Into& into) {
    product(op, p, from, into, Second());
  }
  void product(const DeviceOp& op, const Product& p, const From& from, const Into& into,
               const Second& second);
  std::int32_t record_spans_of(std::int64_t spans) const;
  From normed(const DeviceOp& op, const Rows& x, std::int32_t rows);
  void pack_int8(cl_mem x, std::int32_t stride, std::int32_t rows, std::int64_t n, cl_mem out);
  bool leaves_int8_rows(const DeviceOp& op) const;
  void norm(const DeviceOp& op, cl_mem x, std::int32_t rows, cl_mem out, bool add);
  void norm_heads(std::int32_t first_head, std::int32_t heads, std::int32_t weight_at);
  RopeTable rope_table_of(const DeviceOp& op, bool rotate) const;
  void finish_heads(const DeviceOp& op, std::int32_t last_head, bool keys_wait);

  std::shared_ptr<DeviceContext> device_context_;  // first: the members below live on it
  KernelCapabilities capabilities_;
  plan::ModelShape shape_;
  backend::Limits limits_;
  cpu::KvType kv_type_;
  bool expert_norm_ = true;
  float expert_scale_ = 1;
  bool has_query_rope_ = false;
  plan::Router router_ = plan::Router::kSoftmax;
  std::int32_t groups_ = 1, groups_used_ = 1;  // of experts
  bool ends_ = true;                           // has the output matrix and the logits
  std::int32_t vocab_ = 0;                     // rows of the output on this device
  std::int64_t all_heads_ = 0;                 // heads of q on all devices
  std::int32_t head_pad_ = 0, pairs_ = 0;
  std::uint64_t page_bytes_ = 0;  // of one layer's keys or values

  backend::StateTable state_table_;  // empty: no layer carries a state
  std::int64_t state_floats_ = 0, state_layers_ = 0;
  std::int32_t delta_items_ = 0;  // items of a work-group of kernels/delta.cl

  Queue queue_;
  Staging host_;  // the inputs, then the results
  Weights weights_;
  std::vector<Buffer> keys_, values_;  // [layers]
  Scratch scratch_;
  KernelSet kernels_;
  std::vector<DeviceOp> ops_;
  std::size_t for_all_ = 0;  // model::operations_for_all
  backend::Memory memory_;
  std::uint64_t bytes_required_ = 0;
  bool saved_ = false;  // the kernels have run once and are in the cache

  // The running batch; capacity is reserved at load.
  std::vector<Token> tokens_;
  std::vector<StateRun> runs_;
  std::vector<std::int32_t> tables_;  // page tables, batch rows of the logits, their top_counts_
  std::int32_t logit_rows_at_ = 0, logit_row_count_ = 0;
  const std::vector<backend::Segment>* segments_ = nullptr;
  bool hidden_requested_ = false;
  bool extra_logits_requested_ = false;  // backend::Segment::deferred_logits
  std::int32_t spread_for_ = -1;  // the norm that the rows of x are spread for, in h and squares
  // True where rows are int8 rows (kernels/int8_rows.cl): Scratch::h, a, f and e.
  bool h_is_int8_ = false, a_is_int8_ = false, f_is_int8_ = false, e_is_int8_ = false;
  std::vector<std::int32_t> top_counts_;  // by row: how many of its greatest logits are requested;
                                          // 0: all; kBest: the index of the greatest one
  std::int32_t best_n_ = 0, top_n_ = 0;   // rows with kBest, and rows with a count
  bool short_segments_ = false;           // all segments are short (kShortSegmentTokens)
  std::int32_t layer_ = -1;               // layer of the last operation that was enqueued
  std::chrono::steady_clock::time_point begun_at_;  // of the step
  bool quick_ = false;                              // the last short step was (kQuickStep)
  InputsAt inputs_at_;
  std::span<float> logits_;         // [logit_rows][vocab], in host_ as the next two
  std::span<std::int32_t> best_;    // [logit_rows]
  std::span<backend::Ranked> top_;  // [logit_rows][kTopMost]
  std::vector<float> hidden_;       // [batch][x stride]: rows of x after the last layer
};

}  // namespace holdfast::opencl
