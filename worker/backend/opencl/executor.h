#pragma once
// The program as compiled for an OpenCL device: weights, KV pages and scratch on it, kernels, and
// the order in which they run.

#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/backend/backend.h"
#include "worker/backend/cpu/kernels.h"
#include "worker/backend/opencl/limits.h"
#include "worker/backend/opencl/sources.h"
#include "worker/backend/opencl/weights.h"
#include "worker/backend/states.h"

namespace holdfast::opencl {

/// Changed whenever the bits of any kernel change on any device (DESIGN: kernels-rev).
inline constexpr char kKernelsRev[] = "r2";

/// A matrix of an operation and the column of the result that it begins at. What a slot of an
/// operation's weights holds may be several matrices (q, k, v of different types).
struct Product {
  DeviceMatrix matrix;
  std::int32_t column = 0;
};

/// Whether one launch may do both products: two matrices of unlike formats, whose columns follow
/// one another.
bool are_beside(const std::vector<Product>& products);

/// One operation with its weights in place. Places of vectors are floats of Weights::vectors, -1
/// where there is none.
struct DeviceOp {
  model::OpKind kind = model::OpKind::kEmbed;
  std::int32_t layer = -1;
  std::int32_t place = -1;        // of the layer among those that have pages, or states
  std::vector<Product> products;  // q, k, v; gate and up; the only one
  std::vector<Product> others;    // kNormQkv: gates of heads; kNormDelta: z, then the gates
  plan::NormKind norm_kind = plan::NormKind::kRms;
  std::int32_t norm_at = -1, norm_bias_at = -1;
  // Of q, k and v together; of the only product; of gate and up; of experts one behind the other.
  std::int32_t bias_at[2] = {-1, -1};
  std::int32_t head_norm_at[2] = {-1, -1};  // q, k
  std::int32_t gate_at = -1;                // kRoute: of the shared expert
  std::int32_t choice_at = -1;              // kRoute: added to scores where experts are chosen
  std::int32_t types_at = -1;               // kEmbedMore
  std::int32_t sinks_at = -1;               // kAttention
  std::int32_t conv_at = -1, rate_at = -1;  // kDelta
  bool neighbours = false;                  // kDelta: plan::DeltaNet
  bool of_states = false;                   // kOutAdd: of what a kDelta gives
  bool gates_follow = false;                // kAttention: a kGateHeads reads its rows
  cpu::Activate activate = cpu::Activate::kSilu;
  bool gated = false;  // a gate's product and an up's
  bool from_h = false, to_h = false, gate_rows = false, row_norm = false;
  std::int32_t rope = -1;
  std::int32_t window = 0;
  std::int64_t inner = 0;  // kOutAdd, kDownAdd: values of a row that goes in
  bool apart = false;      // kNormGateUp, kDownAdd: by Scratch::s
  float scale = 1, cap = 0;
  bool norm_inside = false;  // its product norms the rows (kernels/product.cl)
  /// Of the next operation's norm, where this one leaves the whole of x and may spread it for that.
  std::int32_t next_norm_at = -1;
  /// kAttention: it may finish the heads of what is before it, so bias_at[0], head_norm_at and rope
  /// are those.
  bool may_finish = false;
  /// In a split by rows: the columns of its result that this device computes (of an embedding: the
  /// rows that it has), the others come from the other devices. 0 columns: all of them.
  std::int32_t column = 0, columns = 0;
};

/// Rows of floats on the device, `stride` from one to the next.
struct Rows {
  Buffer buffer;
  std::int32_t stride = 0;
  cl_mem get() const { return buffer.get(); }
  RowsAt at() const { return {buffer.get(), stride}; }
};

/// Memory of a forward pass. What a model does not need is not taken.
struct Scratch {
  Rows x;                       // [batch]: the residual
  Rows h;                       // [max(batch, logit rows)]
  Rows squares;                 // [batch]: sums of the squares of x by panels, padded to 16 of them
  Rows qkv;                     // [batch]: heads of q, of k, of v, head_pad apart
  Rows a;                       // [batch]
  Rows f;                       // [batch]
  Rows m, z, gates, v;          // [batch]: of recurrent layers, and z of gates behind heads
  Buffer states, runs;          // [states][layers][plan::state_floats]; StateRun [segments]
  Rows s;                       // [batch]: f of shared experts, where layers without experts have f
  Rows wanted;                  // [logit rows]: rows of x that want logits
  Rows logits;                  // [logit rows], stride = vocab
  Buffer best;                  // [logit rows]: where the greatest one is
  Rows top;                     // [logit rows]: kTopMost pairs of a logit and its place
  Rows scores;                  // [batch]: of experts
  Rows e;                       // [batch * used]: f of the experts
  Rows d;                       // [batch * used]: what the experts give
  Buffer expert, weight, gate;  // [batch * used], [batch * used], [batch]
  Buffer tokens;                // int4 [batch]: id, position, place of the page table, end of what
                                // the token sees
  Buffer tables;                // page tables of all segments, then the rows that want logits
  Buffer apart;                 // what splits of attention give, side by side; none: short contexts
  Buffer turns[2];  // cos [context][pairs], then sin; then those of queries, if they have
                    // their own
};

/// A segment as kernels/delta.cl reads it.
struct StateRun {
  std::int32_t first, tokens, fresh, from, from_second, state, state_second, keep, keep_as, pad;
};

/// One for each of rows_shared().
using RowsKernels = std::array<KernelHandle, kRowsKernels>;

/// Kernels of one weight format.
struct ProductKernels {
  RowsKernels one, pair;
  KernelHandle tile, embed;
};

struct KernelSet {
  std::array<ProductKernels, static_cast<std::size_t>(cpu::Format::kCount)> product;
  std::map<std::pair<cpu::Format, cpu::Format>, RowsKernels> beside;
  KernelHandle spread, norm_rms, norm_layer, gather, rescale, best, first_few, records;
  KernelHandle finish_head, attention, merge_splits;
  KernelHandle choose_experts, open_gate, add_slots;
  KernelHandle delta, gate_heads;
};

struct Token {  // as the kernels read it
  std::int32_t id, position, table, end;
};

class OpenclExecutor final : public backend::Executor {
 public:
  Result<const float*> forward(const std::vector<backend::Segment>& segments) override;
  Result<void> rehearse(const std::vector<backend::Segment>& segments) override;
  Result<const float*> more_logits(std::int32_t first, std::int32_t n) override;
  const float* hidden(std::int32_t i) const override;
  backend::Memory memory() const override;
  std::string class_prefix() const override;
  std::uint64_t allocations() const override { return buffer_count(); }
  bool gives_best() const override { return shape_.causal; }
  std::int32_t best(std::int32_t row) const override;
  std::int32_t top_most() const override { return shape_.causal ? kTopMost : 0; }
  const backend::Ranked* top(std::int32_t row) const override;

  // A forward in steps, for a model over several devices (group.h). begin() takes the batch; run()
  // enqueues operations [first, end) of the program; settle() waits for them. Between them rows go
  // from device to device.
  void begin(const std::vector<backend::Segment>& segments);
  /// Instead, for more_logits: the same batch, and other rows that want logits.
  void begin_more(std::int32_t first, std::int32_t n);
  void run(std::size_t first, std::size_t end);
  /// kModelFailed: the device failed.
  Result<void> settle();
  /// The same, then the logits that were wanted (and outputs, for hidden()), checked.
  Result<const float*> finish();
  /// Instead, for a batch that comes in pieces, a begin() each: enqueues the reading of a piece's
  /// logits, of which `first` rows came before, and at last the results of all of `segments`.
  void give(std::int32_t first) { read_logits(first); }
  Result<const float*> conclude(const std::vector<backend::Segment>& segments);
  /// Where rows of x may wait while nothing runs here: memory of a pass. No buffer if it is too
  /// small.
  RowsAt inbox() const;
  /// kNumericsNan: one of the batch's logits or outputs is not finite. logits: [wanted][vocab].
  Result<void> check_results(const float* logits, std::int64_t vocab, const float* hidden) const;
  const std::vector<DeviceOp>& operations() const { return ops_; }
  /// Those before the first layer, which make x of the tokens; 0 where another device has them.
  std::size_t leading() const;
  Queue& queue() { return queue_; }
  Result<Staging> take_staging(std::uint64_t bytes, const std::string& what) const {
    return Staging::take(*station_->device().api, station_->context(), queue_.get(), bytes, what);
  }
  const Scratch& scratch() const { return scratch_; }
  const backend::Limits& limits() const { return limits_; }
  std::int64_t width() const { return shape_.width; }
  std::int64_t batch_rows() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t result_rows(std::size_t op) const;  // of an operation: the batch's, or its slots
  std::int32_t wanted_rows() const { return wanted_n_; }
  bool hidden_wanted() const { return hidden_wanted_; }
  /// Bytes that it will take or has taken.
  std::uint64_t bytes_wanted() const { return bytes_wanted_; }

 private:
  OpenclExecutor(std::shared_ptr<Station> station, const model::Program& program,
                 const backend::LoadOptions& options, cpu::KvType kv_type);
  friend class Loader;

  /// Where and how a product's result goes (kernels/product.cl).
  struct Into {
    cl_mem y = nullptr;
    std::int32_t stride = 0;
    std::int32_t columns = 0;  // written; 0 = all of the matrix
    std::int32_t mode = 0;
    std::int32_t bias_at = -1, second_bias_at = -1;
    float scale = 1, cap = 0;
    bool gate_rows = false;
    std::int32_t next_norm_at = -1;  // y is x, and is spread for this norm
    bool as_records = false;         // products alone read it: left as they do
  };
  /// Rows of a product's input.
  struct From {
    cl_mem x = nullptr;
    std::int32_t stride = 0;
    std::int32_t rows = 0;
    std::int32_t share = 1;  // rows of the result for each row of x; above 1 they are slots
    bool slots = false;      // each row has its own matrix, by Scratch::expert
    bool spread = false;     // they are to be normed: Scratch::squares has the rest of it
  };
  /// The rotation of an operation's heads.
  struct Turns {
    cl_mem table = nullptr;
    std::uint64_t sin_at = 0, q_at = 0;
    std::int32_t pairs = 0, neox = 0;
  };
  /// A product's second matrix, in the same launch.
  struct Second {
    const DeviceMatrix* matrix = nullptr;  // null: none
    bool beside = false;                   // its columns are behind those of the first; else a pair
  };

  static constexpr std::int32_t kBest = -1;

  // batch.cpp
  void plan_batch(const std::vector<backend::Segment>& segments);
  std::size_t last_needed() const;
  Error bad_row(std::int32_t token) const;
  Result<const float*> checked();
  void read_logits(std::int32_t first);
  void read_few(std::int32_t first);
  Result<void> check_few() const;

  // forward.cpp: one method an operation.
  void run_op(const DeviceOp& op);
  void embed(const DeviceOp& op);
  void embed_more(const DeviceOp& op);
  void qkv(const DeviceOp& op);
  void qk_norm(const DeviceOp& op);
  void attend(const DeviceOp& op);
  std::int32_t sides() const;
  void out_or_down(const DeviceOp& op, const Rows& in, bool are_records);
  const Rows& rows_of_f(const DeviceOp& op) const { return op.apart ? scratch_.s : scratch_.f; }
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
  From normed(const DeviceOp& op, const Rows& x, std::int32_t rows);
  void as_records(cl_mem x, std::int32_t stride, std::int32_t rows, std::int64_t n, cl_mem out);
  bool leaves_records(const DeviceOp& op) const;
  void norm(const DeviceOp& op, cl_mem x, std::int32_t rows, cl_mem out, bool add);
  void norm_heads(std::int32_t first_head, std::int32_t heads, std::int32_t weight_at);
  Turns turns_of(const DeviceOp& op, bool wanted) const;
  void finish_heads(const DeviceOp& op, std::int32_t last_head, bool keys_wait);

  std::shared_ptr<Station> station_;  // first: what follows lives on it
  KernelWays ways_;
  plan::ModelShape shape_;
  backend::Limits limits_;
  cpu::KvType kv_type_;
  bool expert_norm_ = true;
  float expert_scale_ = 1;
  bool query_turns_ = false;
  plan::Router router_ = plan::Router::kSoftmax;
  std::int32_t groups_ = 1, groups_used_ = 1;  // of experts
  bool ends_ = true;                           // has the logits
  std::int32_t vocab_ = 0;                     // rows of the output that are here
  std::int64_t all_heads_ = 0;                 // of q, on all devices
  std::int32_t head_pad_ = 0, pairs_ = 0;
  std::uint64_t page_bytes_ = 0;  // of one layer's keys or values

  backend::StateBook state_book_;  // empty: no layer carries a state
  std::int64_t state_floats_ = 0, state_layers_ = 0;
  std::int32_t delta_items_ = 0;  // of a group of kernels/delta.cl

  Queue queue_;
  Weights weights_;
  std::vector<Buffer> keys_, values_;  // [layers]
  Scratch scratch_;
  KernelSet kernels_;
  std::vector<DeviceOp> ops_;
  std::size_t for_all_ = 0;  // model::operations_for_all
  backend::Memory memory_;
  std::uint64_t bytes_wanted_ = 0;
  bool saved_ = false;  // the kernels have run once and are in the cache

  // The running batch; capacity is reserved at load.
  std::vector<Token> tokens_;
  std::vector<StateRun> runs_;
  std::vector<std::int32_t> tables_;  // page tables, the batch rows that want logits, few_ of them
  std::int32_t wanted_at_ = 0, wanted_n_ = 0;
  const std::vector<backend::Segment>* segments_ = nullptr;
  bool hidden_wanted_ = false;
  bool more_wanted_ = false;      // backend::Segment::more
  std::int32_t spread_for_ = -1;  // the norm that the rows of x are spread for, in h and squares
  // Whether rows lie there as records (kernels/records.cl): Scratch::h, a, f and e.
  bool h_records_ = false, a_records_ = false, f_records_ = false, e_records_ = false;
  std::vector<std::int32_t> few_;  // by row: how many of its greatest logits are wanted; 0: all;
                                   // kBest: where the greatest one is
  std::int32_t best_n_ = 0, top_n_ = 0;  // rows of which that, or few, are wanted
  bool few_each_ = false;                // no sequence has many tokens in it
  std::int32_t layer_ = -1;              // of the last operation that was enqueued
  std::vector<float> logits_;            // [logit_rows][vocab]
  std::vector<std::int32_t> best_;       // [logit_rows]
  std::vector<backend::Ranked> top_;     // [logit_rows][kTopMost]
  std::vector<float> hidden_;            // [batch][x stride]: rows of x behind the last layer
};

}  // namespace holdfast::opencl
