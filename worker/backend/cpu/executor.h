#pragma once
// A program prepared for this machine's processor: packed weights, KV pages, scratch, threads.

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/memory_nodes.h"
#include "shared/base/thread_pool.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/cached_weights.h"
#include "worker/backend/cpu/kernels.h"
#include "worker/backend/cpu/memory.h"
#include "worker/backend/states.h"

namespace holdfast::cpu {

/// Kernels revision: changed whenever the bits of any family change on any model.
inline constexpr char kKernelsRev[] = "r4";

using plan::kPrivateRows;

/// The activation formats that the decode-heavy and the prefill-heavy kernels take. Null: floats.
struct ActivationFormats {
  const ActivationFormat* decode_heavy = nullptr;
  const ActivationFormat* prefill_heavy = nullptr;
};

/// One operation with its weights in place. Vectors are padded like the rows that they meet.
struct PackedOp {
  model::OpKind kind = model::OpKind::kEmbed;
  std::int32_t layer = -1;
  PackedMatrix matrix[4];
  const float* norm = nullptr;
  const float* norm_bias = nullptr;
  const float* bias[3] = {};            // q, k, v; of out and down; of gate and up; of each expert
  const float* head_norm[2] = {};       // q, k
  const float* gate = nullptr;          // kRoute: gate of the shared expert
  const float* choice = nullptr;        // kRoute: [experts], added to the scores that choose
  const float* expert_scale = nullptr;  // kRoute: [experts]
  /// kNormAdd: norm of h alone. kRoute: norm of the experts' input, where that differs from the
  /// router's. kLayerInputs: norm of each layer's input.
  const float* inner_norm = nullptr;
  const float* factor = nullptr;  // kNormAdd: one number
  const float* types = nullptr;   // kEmbedScaleAdd
  const float* sinks = nullptr;   // kAttention: [heads]
  const float* conv = nullptr;    // kDelta: [taps][columns to 16]
  const float* rate = nullptr;    // kDelta: [state_heads]
  const float* step_bias = nullptr;
  plan::NormKind norm_kind = plan::NormKind::kRms;
  Activate activate = Activate::kSilu;
  bool general_path = false;  // forward.cpp's function is not enough: forward_variants.cpp
  bool from_h = false, to_h = false, gate_rows = false, row_norm = false;
  bool by_input = false, value_norm = false;
  std::int64_t input_at = 0;  // by_input: offset in a row of p
  std::int32_t heads = 0;     // index of CpuExecutor::kinds_
  std::int64_t pages_at = 0;  // offset of the keys of its layer, or of the layer that it reads
  bool gated = false;         // kNormQkv: each head of q is followed by its gate
  bool neighbours = false;    // kDelta: plan::DeltaNet
  ActivationFormats activation_format;  // of its products' rows
  bool int8 = false;        // its rows are int8, where the kernels have that format (activations.h)
  std::int64_t formed = 0;  // floats of a row in an activation format; 0: none is needed
  ActivationFormats fused_format;  // kNormGateUp: the next operation's; the epilogue encodes f so
  bool input_encoded = false;      // kDownAdd: f holds its rows in their activation format
  std::int32_t rope = -1, query_rope = -1;  // index of the table for keys, for queries
  std::int64_t window = 0;
  float scale = 1, cap = 0;
};

/// Cosines and sines of one kind of layer, [context][pairs].
struct RopeTable {
  std::int64_t pairs = 0;
  float* cos = nullptr;
  float* sin = nullptr;
};

/// Rows that a product takes: floats, and the same encoded in an activation format.
struct Operand {
  const float* x = nullptr;  // [rows][x_stride]
  std::int64_t x_stride = 0;
  const std::uint8_t* q = nullptr;  // [rows], q_stride bytes apart; null: no format
  std::int64_t q_stride = 0;
  std::int64_t rows = 0;
  std::int64_t decode_heavy_rows = 0;  // the first rows; the others are of prefill-heavy segments
  bool int8 = false;                   // PackedOp::int8 of the product's operation
};

/// Rows [first, first + rows) of an operand of the whole batch.
inline Operand rows_of(const Operand& all, std::int64_t first, std::int64_t rows) {
  Operand some = all;
  some.x += first * all.x_stride;
  if (all.q != nullptr) some.q += first * all.q_stride;
  some.rows = rows;
  some.decode_heavy_rows = std::clamp<std::int64_t>(all.decode_heavy_rows - first, 0, rows);
  return some;
}

/// The division of a wide batch into groups of rows. The threads of a group multiply only its rows
/// while these have work left, because a row that a thread wrote is in that thread's cache alone.
/// The last group may have fewer rows.
struct RowGroups {
  std::int64_t count = 1;
  std::int64_t rows = 0;  // of a group
  int threads = 1;        // of a group
};
inline constexpr std::int64_t kRowGroupsMost = 8;

/// Rows of floats, `stride` apart.
struct FloatRows {
  float* at = nullptr;
  std::int64_t stride = 0;
};

/// The router's results (kRoute) for the experts' operations. A slot is a row of the batch at one
/// of its experts; slots are ordered by expert, then by row.
struct Routing {
  float* logits = nullptr;  // [batch][stride]
  std::int64_t stride = 0;
  std::int32_t* expert = nullptr;    // [batch][used]
  float* weight = nullptr;           // [batch][used]
  float* gate = nullptr;             // [batch]: gate of the shared expert
  std::int32_t* slot_row = nullptr;  // [batch * used]
  float* slot_weight = nullptr;
  std::int32_t* group = nullptr;  // [experts], `groups` used: those with slots, rising
  std::int32_t* first = nullptr;  // [experts + 1]: first slot of each expert
  float* rows = nullptr;          // [batch * used][x_stride]: rows of h, by slot
  std::int32_t groups = 0;
};

/// The source of embedding rows: packed panels shared with the output, or the file's rows.
struct Embedding {
  const PackedMatrix* packed = nullptr;
  const std::uint8_t* rows = nullptr;
  std::size_t row_bytes = 0;
  gguf::TensorType type = gguf::TensorType::kF32;
};

/// Scratch memory of one thread.
struct WorkerScratch {
  float* unpack = nullptr;         // kUnpackFloats
  float* tile = nullptr;           // [batch][tile_cols]
  float* item_rows = nullptr;      // [batch][item_cols]
  float* rows = nullptr;           // [kPrivateRows][x_stride]
  std::uint8_t* blocks = nullptr;  // [kPrivateRows][row_blocks]
  float* attention = nullptr;
  float* row = nullptr;     // [x_stride], one embedding row
  float* delta = nullptr;   // delta_scratch_floats
  float* latent = nullptr;  // [head_pad]
  float* inputs = nullptr;  // [layers * layer_input], one row of the layers' inputs
};

/// A token of the running batch.
struct Token {
  std::int32_t id;
  std::int32_t segment;
  std::int64_t position;
};

/// A work item of attention: consecutive tokens of one segment.
struct TokenRun {
  std::int32_t first;  // index in the batch
  std::int32_t count;
  std::int32_t segment;
};

/// The heads of keys and values of one kind of layer.
struct HeadKind {
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t pad = 0;         // head_dim rounded up to 16
  std::int64_t page_bytes = 0;  // of keys or of values of a layer, from page to page
  std::vector<TokenRun> runs;   // of the running batch
};

/// The executor of the cpu backend: the threads of its pool run each operation together.
class CpuExecutor final : public backend::Executor {
 public:
  static Result<std::unique_ptr<CpuExecutor>> load(const model::Program& program,
                                                   const backend::LoadOptions& options);

  Result<const float*> forward(const std::vector<backend::Segment>& segments) override;
  Result<const float*> compute_deferred_logits(std::int32_t first, std::int32_t n) override;
  const float* maxima(std::int32_t row) const override { return maxima_ + row * maxima_stride_; }
  const float* hidden(std::int32_t i) const override;
  backend::Memory memory() const override;
  std::int64_t prefill_heavy_ratio() const override { return kernels_.prefill_heavy_ratio; }
  int workers() const override { return pool_.size(); }
  void on_workers(const std::function<void(int)>& work) override { pool_.run(work); }
  std::string class_prefix() const override;
  std::uint32_t barriers() const override { return pool_.waits(); }
  std::uint64_t allocations() const override { return region_count(); }

  // A forward in two parts, for a model whose first layers run on another device: embed() makes the
  // rows x of the batch, the caller takes them through those layers and brings them back, and
  // forward_rest() goes on.
  void embed(const std::vector<backend::Segment>& segments);
  Result<const float*> forward_rest();
  float* rows() { return x_; }  // [batch][rows_stride]
  std::int64_t rows_stride() const { return x_stride_; }

 private:
  CpuExecutor(const model::Program& program, const backend::LoadOptions& options,
              const Kernels& kernels);
  friend class Loader;

  // batch.cpp
  void plan_batch(const std::vector<backend::Segment>& segments);
  void plan_runs(std::int32_t s, std::int32_t first, std::int32_t n);
  void compact_batch();
  std::int32_t row_of(std::int32_t i) const;

  // forward.cpp: one method an operation, called by every worker.
  Result<const float*> given_logits();
  void run_operations(std::size_t first, std::size_t end);
  void run_op(const PackedOp& op, int worker);
  void run_variant_op(const PackedOp& op, int worker);
  void look_up(int worker);
  Operand operand(const PackedOp& op, const float* x, std::int64_t stride, std::int64_t rows,
                  std::int64_t decode_heavy_rows, int worker);
  Operand token_operand(const PackedOp& op, const float* x, std::int64_t stride, int worker);
  std::int64_t q_stride(const ActivationFormats& activation_format, std::int64_t floats) const;
  void encode_row(const PackedOp& op, bool prefill_heavy, const float* x, std::uint8_t* q) const;
  void multiply(const MatmulArgs& args, std::int64_t decode_heavy_rows) const;
  void qkv(const PackedOp& op, int worker);
  struct Head {
    int which;
    std::int64_t index;
  };
  std::int64_t q_items(const PackedOp& op) const { return shape_.heads * (op.gated ? 2 : 1); }
  std::int64_t qkv_items(const PackedOp& op) const;
  Head head_of(const PackedOp& op, std::int64_t head) const;
  void qkv_head(const PackedOp& op, std::int64_t at, const Operand& h, std::int64_t first,
                std::int64_t next, int worker);
  void store_gate(std::int64_t head, std::int64_t first, const MatmulArgs& args) const;
  void finish_head(const PackedOp& op, int which, std::int64_t head, std::int64_t first,
                   const MatmulArgs& args, int worker);
  void finish_value(const PackedOp& op, std::int64_t head, const Token& token, const float* value,
                    float* scratch);
  void attend(const PackedOp& op, int worker);
  FloatRows rows_of_f(const PackedOp& op, std::int64_t first, std::int64_t p0, int worker);
  void end_rows_of_f(const PackedOp& op, std::int64_t first, std::int64_t rows) const;
  void run_epilogue(const PackedOp& op, const float* f, std::int64_t i, std::int64_t p0,
                    std::int64_t p1) const;
  void add_product(const PackedOp& op, const float* x, std::int64_t stride, int worker);
  void gate_up(const PackedOp& op, int worker);
  void logits(const PackedOp& op, int worker);
  bool finish_logits(const PackedOp& op, std::int64_t row, std::int64_t p0, std::int64_t p1) const;

  // forward_variants.cpp: operations of some architectures only.
  void embed_scale_add(const PackedOp& op, int worker);
  void layer_inputs(const PackedOp& op, int worker);
  void norm_store(const PackedOp& op, int worker);
  void norm_row(const PackedOp& op, const float* x, float* out) const;
  void norm_inner(const PackedOp& op, const float* x, float* out) const;
  void norm_qk(const PackedOp& op, int worker);
  void rotate(std::int32_t rope, float* head, std::int64_t position) const;
  void store(const PackedOp& op, int which, std::int64_t head, const Token& token,
             const float* values);
  void product_general(const PackedOp& op, const float* x, std::int64_t stride, int worker);
  void gate_up_general(const PackedOp& op, int worker);
  void norm_add(const PackedOp& op, int worker);
  void norm_self(const PackedOp& op, int worker);
  void finish_hidden(const PackedOp& op, int worker);

  // latent.cpp
  void norm_latent(const PackedOp& op, int worker);
  void latent_query(const PackedOp& op, int worker);
  void latent_heads(const PackedOp& op, int worker);
  void latent_head(const PackedOp& op, std::int64_t head, int worker);
  void latent_values(const PackedOp& op, int worker);
  void store_latent(const PackedOp& op, const Token& token, const float* from, float* row);
  void put_head_row(const PackedOp& op, std::int64_t head, std::int64_t i, const float* from,
                    std::int64_t n);
  MatmulArgs head_product(const PackedOp& op, std::int64_t head, int worker) const;
  void products_into(const PackedOp& op, const Operand& x, std::initializer_list<FloatRows> to,
                     int worker);

  // states.cpp
  void norm_delta(const PackedOp& op, int worker);
  void delta(const PackedOp& op, int worker);
  void run_delta(const PackedOp& op, std::int64_t s, std::int64_t head, int worker);
  float* state_of(std::int32_t state, std::int32_t layer) const;
  void gate_heads(int worker);
  void end_rows_of_a(std::int64_t first, std::int64_t rows, std::int64_t n) const;

  // experts.cpp
  void route(const PackedOp& op, int worker);
  void choose(const PackedOp& op, std::int64_t row, float* p);
  double score_experts(float* p, bool whole) const;
  template <class Rank>
  std::uint64_t open_groups(Rank rank) const;
  void add_bias(const float* bias, std::int64_t p0, const FloatRows& to, std::int64_t rows,
                std::int64_t n) const;
  void group_slots();
  std::int64_t slots() const;
  Operand slot_operand(const PackedOp& op, const float* x, std::int64_t stride, int worker);
  Operand part(const Operand& all, std::int64_t first, std::int64_t rows) const;
  void expert_gate_up(const PackedOp& op, int worker);
  void clear_h(std::int64_t p0, std::int64_t p1) const;
  void expert_down(const PackedOp& op, int worker);
  const HeadKind& kind_of(const PackedOp& op) const { return kinds_[op.heads]; }
  bool of_two_kinds() const { return kinds_[1].kv_heads > 0; }
  std::uint8_t* page_of(const PackedOp& op, bool value, std::int64_t head) const;
  const std::uint8_t* first_keys(const PackedOp& op, std::int64_t at) const;
  MatmulArgs product(const PackedMatrix& w, const Operand& x, int worker) const;
  template <class F>
  void for_items(std::int64_t panels, std::int64_t per, const PackedOp& op, int worker, F f,
                 std::int64_t unit = 2);
  template <class F>
  void run_product_items(const PackedOp& op, const float* x, std::int64_t stride, int worker,
                         F finish);
  template <class F>
  void run_gate_up_items(const PackedOp& op, int worker, F finish);
  RowGroups row_groups(const Operand& x) const;
  std::int64_t panels_at_once(const PackedMatrix& w, const Operand& x,
                              const RowGroups& groups) const;
  template <class F>
  void for_groups(const RowGroups& groups, std::int64_t panels, std::int64_t per,
                  const PackedOp& op, const Operand& x, int worker, F f);
  std::int64_t likely_next(std::int64_t p0, std::int64_t per, int threads) const;
  std::atomic<std::int64_t>& ticket(const PackedOp& op, std::int64_t group = 0) {
    return tickets_[static_cast<std::size_t>((&op - ops_.data()) * kRowGroupsMost + group)];
  }

  const Kernels& kernels_;
  const Kernels&
      prefill_kernels_;  // for prefill-heavy segments; kernels_ where it makes no difference
  plan::ModelShape shape_;
  backend::Limits limits_;
  ThreadPool pool_;
  const WorkerNumaNodes numa_nodes_;
  KvType kv_type_ = KvType::kF16;

  std::vector<PackedOp> ops_;
  std::size_t leading_ = 0;  // operations before the first layer
  std::size_t for_all_ = 0;  // operations that every token needs (model::operations_for_all)
  Embedding embedding_;
  Embedding positions_;
  Embedding layer_inputs_;
  std::unique_ptr<CachedWeights> cached_weights_;  // that hold weights_; null: not cached
  Region weights_;
  Region kv_;
  Region states_;  // [limits_.states][state_layers_][state_floats_]
  Region scratch_;
  Region rope_;
  bool found_packed_ = false;
  std::uint64_t weights_used_ = 0, kv_used_ = 0, scratch_used_ = 0;

  std::int64_t head_pad_ = 0;
  std::int64_t x_stride_ = 0, a_stride_ = 0, f_stride_ = 0, q_stride_ = 0, logit_stride_ = 0;
  std::int64_t maxima_stride_ = 0, k_stride_ = 0, e_stride_ = 0, m_stride_ = 0, n_stride_ = 0;
  std::int64_t state_layers_ = 0, state_floats_ = 0;
  std::int64_t tile_cols_ = 0;
  std::int64_t item_cols_ = 0;  // stride of the rows of a work item
  std::int64_t p_stride_ = 0;
  RopeTable rope_tables_[2];
  bool expert_norm_ = true;
  float expert_scale_ = 1;
  plan::Router router_ = plan::Router::kSoftmax;
  std::int64_t expert_groups_ = 1, expert_groups_used_ = 1;

  float* x_ = nullptr;  // [batch][x_stride]
  float* h_ = nullptr;  // [batch][x_stride]
  float* q_ = nullptr;  // [batch][q_stride], heads head_pad apart
  float* a_ = nullptr;  // [batch][a_stride]
  float* f_ = nullptr;  // [batch][f_stride], or encoded, q_stride bytes apart
  float* e_ = nullptr;  // [batch * used][e_stride]: f of the experts
  float* p_ = nullptr;  // [batch][p_stride]: each layer's own input, padded to 16
  float* s_ = nullptr;  // [batch][x_stride]: rows that are added to h later
  float* k_ = nullptr;  // [batch][k_stride]: keys before their norm
  float* m_ = nullptr;  // [batch][m_stride]: input of a convolution; of latent attention
                        // inputs of the queries' product, and heads' values
  float* z_ = nullptr;  // [batch][a_stride]: gates of rows of a; latent numbers
  float* n_ = nullptr;  // [heads][batch][n_stride]: each head's own rows
  std::uint8_t* n_blocks_ = nullptr;  // the same encoded
  float* gates_ = nullptr;            // [batch][2][state_heads padded to 16]
  Routing routing_;
  std::uint8_t* blocks_ = nullptr;  // [batch, or batch * used][row_blocks]
  float* logit_inputs_ = nullptr;   // [logit_rows][x_stride]: rows of x whose logits are computed
  float* logits_ = nullptr;         // [logit_rows][logit_stride], compacted to vocab at the end
  float* maxima_ = nullptr;         // [logit_rows][maxima_stride]: backend::LogitRow
  std::vector<WorkerScratch> workers_;

  // The running batch; capacity is reserved at load.
  const std::vector<backend::Segment>* segments_ = nullptr;
  std::vector<Token> tokens_;
  std::int64_t decode_heavy_rows_ = 0;  // tokens_ before those of prefill-heavy segments
  HeadKind kinds_[2];  // of all layers; or of those without a window and those with one
  std::vector<std::int64_t> segment_first_;  // index of its first token in the batch
  backend::StateTable state_table_;
  std::vector<backend::StateTable::Halves> halves_;  // of the batch's segments
  std::vector<std::int32_t> logit_tokens_;           // batch index of each logits row
  std::vector<std::atomic<std::int64_t>> tickets_;   // [ops][kRowGroupsMost]: next work item
  bool hidden_requested_ = false;
  std::vector<std::int32_t> output_tokens_;  // tokens of the batch that have a result, rising
  bool compacts_rows_ = false;  // after for_all_ operations only output_tokens_ are left
  std::atomic<std::int32_t> bad_token_{-1};  // token of the batch with a result that is not finite
};

}  // namespace holdfast::cpu
