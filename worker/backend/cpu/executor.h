#pragma once
// The program as compiled for this machine's processor: packed weights, KV pages, scratch, threads.

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/memory_nodes.h"
#include "shared/base/thread_pool.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/kept.h"
#include "worker/backend/cpu/kernels.h"
#include "worker/backend/cpu/memory.h"
#include "worker/backend/states.h"

namespace holdfast::cpu {

/// Changed whenever the bits of any family change on any model (DESIGN: kernels-rev).
inline constexpr char kKernelsRev[] = "r4";

/// Rows up to this many are normalised by every thread for itself, which saves a barrier.
inline constexpr std::int64_t kPrivateRows = 4;

/// In which form the kernels of segments that write get rows, and those of segments that read.
/// Null: as floats.
struct RowForms {
  const RowForm* writing = nullptr;
  const RowForm* reading = nullptr;
};

/// One operation with its weights in place. Vectors are padded like the rows that they meet.
struct PackedOp {
  model::OpKind kind = model::OpKind::kEmbed;
  std::int32_t layer = -1;
  PackedMatrix matrix[4];
  const float* norm = nullptr;
  const float* norm_bias = nullptr;
  const float* bias[3] = {};  // q, k, v; of out and down; of gate and up; of experts each one's
  const float* head_norm[2] = {};       // q, k
  const float* gate = nullptr;          // kRoute: of the shared expert
  const float* choice = nullptr;        // kRoute: [experts], added to scores where they are chosen
  const float* expert_scale = nullptr;  // kRoute: [experts]
  /// kNormAdd: of h alone. kRoute: of what experts get, where that is not what the router gets.
  /// kLayerInputs: of each layer's.
  const float* inner_norm = nullptr;
  const float* factor = nullptr;  // kNormAdd: one number
  const float* types = nullptr;   // kEmbedMore
  const float* sinks = nullptr;   // kAttention: [heads]
  const float* conv = nullptr;    // kDelta: [taps][columns to 16]
  const float* rate = nullptr;    // kDelta: [state_heads]
  const float* step_bias = nullptr;
  plan::NormKind norm_kind = plan::NormKind::kRms;
  Activate activate = Activate::kSilu;
  bool more = false;  // what forward.cpp does plainly: by the functions of forward_more.cpp
  bool from_h = false, to_h = false, gate_rows = false, row_norm = false;
  bool by_input = false, value_norm = false;
  std::int64_t input_at = 0;  // by_input: of a row of p
  std::int32_t heads = 0;     // of CpuExecutor::kinds_
  std::int64_t pages_at = 0;  // keys of its layer in the pages' memory, or of the layer it reads
  bool gated = false;         // kNormQkv: behind each head of q its gate
  bool neighbours = false;    // kDelta: plan::DeltaNet
  RowForms form;              // that its products want rows in
  bool coarse = false;        // of the forms that there are, the one with 8 bits (activations.h)
  std::int64_t formed = 0;    // floats of a row, if they want any
  RowForms hands_on;          // kNormGateUp: the next operation's, which f gets as it is made
  bool handed = false;        // kDownAdd: its rows have their form, in the place of f
  std::int32_t rope = -1, query_rope = -1;  // of keys, of queries
  std::int64_t window = 0;
  float scale = 1, cap = 0;
};

/// cos and sin of one kind of layer, [context][pairs].
struct RopeTable {
  std::int64_t pairs = 0;
  float* cos = nullptr;
  float* sin = nullptr;
};

/// Rows that a product takes: floats, and the same in a form of the kernels.
struct Operand {
  const float* x = nullptr;  // [rows][x_stride]
  std::int64_t x_stride = 0;
  const std::uint8_t* q = nullptr;  // [rows], q_stride bytes apart
  std::int64_t q_stride = 0;
  std::int64_t rows = 0;
  std::int64_t writing = 0;  // of them, the first ones: the others are of segments that read
  bool coarse = false;       // PackedOp::coarse of whose product it is
};

/// Rows [first, first + rows) of an operand of the batch.
inline Operand rows_of(const Operand& all, std::int64_t first, std::int64_t rows) {
  Operand some = all;
  some.x += first * all.x_stride;
  if (all.q != nullptr) some.q += first * all.q_stride;
  some.rows = rows;
  some.writing = std::clamp<std::int64_t>(all.writing - first, 0, rows);
  return some;
}

/// How a wide batch is divided: threads of a group multiply its rows alone, as long as it has work,
/// because what a thread writes is near to it alone. The last group may have fewer rows.
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

/// What kRoute leaves for the experts' operations. A slot is a row of the batch at one of its
/// experts; slots are ordered by expert, then by row.
struct Routing {
  float* logits = nullptr;  // [batch][stride]
  std::int64_t stride = 0;
  std::int32_t* expert = nullptr;    // [batch][used]
  float* weight = nullptr;           // [batch][used]
  float* gate = nullptr;             // [batch]: of the shared expert
  std::int32_t* slot_row = nullptr;  // [batch * used]
  float* slot_weight = nullptr;
  std::int32_t* group = nullptr;  // [experts]: experts that have slots, rising
  std::int32_t* first = nullptr;  // [experts + 1]: first slot of each expert
  float* rows = nullptr;          // [batch * used][x_stride]: the slots' rows of h
  std::int32_t groups = 0;
};

/// Where the embedding's rows come from: packed panels shared with the output, or the file's rows.
struct Embedding {
  const PackedMatrix* packed = nullptr;
  const std::uint8_t* rows = nullptr;
  std::size_t row_bytes = 0;
  gguf::TensorType type = gguf::TensorType::kF32;
};

/// Memory of one thread.
struct WorkerScratch {
  float* unpack = nullptr;         // kUnpackFloats
  float* tile = nullptr;           // [batch][tile_cols]
  float* piece = nullptr;          // [batch][piece_cols]
  float* rows = nullptr;           // [kPrivateRows][x_stride]
  std::uint8_t* blocks = nullptr;  // [kPrivateRows][row_blocks]
  float* attention = nullptr;
  float* row = nullptr;     // one embedding row
  float* delta = nullptr;   // delta_scratch_floats
  float* latent = nullptr;  // [head_pad]
  float* inputs = nullptr;  // one row of the layers' inputs
};

/// A token of the running batch.
struct Token {
  std::int32_t id;
  std::int32_t segment;
  std::int64_t position;
};

/// Attention work: consecutive tokens of one segment.
struct TokenRun {
  std::int32_t first;  // in the batch
  std::int32_t count;
  std::int32_t segment;
};

/// Heads of keys and values of one kind of layer.
struct HeadKind {
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t pad = 0;         // head_dim to 16
  std::int64_t page_bytes = 0;  // of k or of v of a layer, from page to page
  std::vector<TokenRun> runs;   // of the running batch
};

class CpuExecutor final : public backend::Executor {
 public:
  static Result<std::unique_ptr<CpuExecutor>> load(const model::Program& program,
                                                   const backend::LoadOptions& options);

  Result<const float*> forward(const std::vector<backend::Segment>& segments) override;
  Result<const float*> more_logits(std::int32_t first, std::int32_t n) override;
  const float* maxima(std::int32_t row) const override { return maxima_ + row * maxima_stride_; }
  const float* hidden(std::int32_t i) const override;
  backend::Memory memory() const override;
  std::int64_t read_for_written() const override { return kernels_.read_for_written; }
  int workers() const override { return pool_.size(); }
  void on_workers(const std::function<void(int)>& work) override { pool_.run(work); }
  std::string class_prefix() const override;
  std::uint32_t barriers() const override { return pool_.waits(); }
  std::uint64_t allocations() const override { return region_count(); }

  // A forward in two parts, for a model whose first layers are elsewhere: embed() makes the rows x
  // of the batch, which its owner takes to those layers and brings back; forward_rest() goes on.
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
  void keep_wanted();
  std::int32_t row_of(std::int32_t i) const;

  // forward.cpp: one method an operation, run by every worker.
  Result<const float*> given_logits();
  void run_operations(std::size_t first, std::size_t end);
  void run_op(const PackedOp& op, int worker);
  void run_beside_attention(const PackedOp& op, int worker);
  void look_up(int worker);
  Operand operand(const PackedOp& op, const float* x, std::int64_t stride, std::int64_t rows,
                  std::int64_t writing, int worker);
  Operand token_operand(const PackedOp& op, const float* x, std::int64_t stride, int worker);
  std::int64_t q_stride(const RowForms& form, std::int64_t floats) const;
  void form_row(const PackedOp& op, bool reads, const float* x, std::uint8_t* q) const;
  void multiply(const MatmulArgs& args, std::int64_t writing) const;
  void qkv(const PackedOp& op, int worker);
  struct Head {
    int which;
    std::int64_t index;
  };
  std::int64_t q_pieces(const PackedOp& op) const { return shape_.heads * (op.gated ? 2 : 1); }
  std::int64_t qkv_pieces(const PackedOp& op) const;
  Head head_of(const PackedOp& op, std::int64_t head) const;
  void qkv_head(const PackedOp& op, std::int64_t at, const Operand& h, std::int64_t first,
                std::int64_t next, int worker);
  void keep_gate(std::int64_t head, std::int64_t first, const MatmulArgs& args) const;
  void finish_head(const PackedOp& op, int which, std::int64_t head, std::int64_t first,
                   const MatmulArgs& args, int worker);
  void finish_value(const PackedOp& op, std::int64_t head, const Token& token, const float* value,
                    float* own);
  void attend(const PackedOp& op, int worker);
  FloatRows rows_of_f(const PackedOp& op, std::int64_t first, std::int64_t p0, int worker);
  void end_rows_of_f(const PackedOp& op, std::int64_t first, std::int64_t rows) const;
  void hand_on(const PackedOp& op, const float* f, std::int64_t i, std::int64_t p0,
               std::int64_t p1) const;
  void add_product(const PackedOp& op, const float* x, std::int64_t stride, int worker);
  void gate_up(const PackedOp& op, int worker);
  void logits(const PackedOp& op, int worker);
  bool finish_logits(const PackedOp& op, std::int64_t row, std::int64_t p0, std::int64_t p1) const;

  // forward_more.cpp: what only some architectures have.
  void embed_more(const PackedOp& op, int worker);
  void layer_inputs(const PackedOp& op, int worker);
  void norm_keep(const PackedOp& op, int worker);
  void norm_row(const PackedOp& op, const float* x, float* out) const;
  void norm_inner(const PackedOp& op, const float* x, float* out) const;
  void norm_qk(const PackedOp& op, int worker);
  void rotate(std::int32_t rope, float* head, std::int64_t position) const;
  void store(const PackedOp& op, int which, std::int64_t head, const Token& token,
             const float* values);
  void product_more(const PackedOp& op, const float* x, std::int64_t stride, int worker);
  void gate_up_more(const PackedOp& op, int worker);
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
  void for_tiles(std::int64_t panels, std::int64_t per, const PackedOp& op, int worker, F f,
                 std::int64_t unit = 2);
  template <class F>
  void product_pieces(const PackedOp& op, const float* x, std::int64_t stride, int worker,
                      F finish);
  template <class F>
  void gate_up_pieces(const PackedOp& op, int worker, F finish);
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
  const Kernels& reading_;  // for the segments that read; kernels_ where it makes no difference
  plan::ModelShape shape_;
  backend::Limits limits_;
  ThreadPool pool_;
  const WorkerPlaces places_;
  KvType kv_type_ = KvType::kF16;

  std::vector<PackedOp> ops_;
  std::size_t leading_ = 0;  // operations before the first layer
  std::size_t for_all_ = 0;  // operations that every token needs (model::operations_for_all)
  Embedding embedding_;
  Embedding positions_;
  Embedding layer_inputs_;
  std::unique_ptr<KeptImage> image_;  // that weights_ lie in; null: nobody keeps them
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
  std::int64_t piece_cols_ = 0;  // from row to row of a piece of work
  std::int64_t row_blocks_ = 0;  // from row to row, of the largest form
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
  float* f_ = nullptr;  // [batch][f_stride], or its rows in a form, q_stride bytes apart
  float* e_ = nullptr;  // [batch * used][e_stride]: f of the experts
  float* p_ = nullptr;  // [batch][p_stride]: each layer's own input, to 16
  float* s_ = nullptr;  // [batch][x_stride]: what waits for h
  float* k_ = nullptr;  // [batch][k_stride]: keys that wait for their norm
  float* m_ = nullptr;  // [batch][m_stride]: what a convolution goes over; of latent attention
                        // what queries are made of, and heads' values
  float* z_ = nullptr;  // [batch][a_stride]: what gates rows of a; latent numbers
  float* n_ = nullptr;  // [heads][batch][n_stride]: each head's own rows
  std::uint8_t* n_blocks_ = nullptr;  // the same in a form
  float* gates_ = nullptr;            // [batch][2][state_heads to 16]
  Routing routing_;
  std::uint8_t* blocks_ = nullptr;  // [batch, or batch * used][row_blocks]
  float* wanted_ = nullptr;         // [logit_rows][x_stride]: rows of x that want logits
  float* logits_ = nullptr;         // [logit_rows][logit_stride], compacted to vocab at the end
  float* maxima_ = nullptr;         // [logit_rows][maxima_stride]: backend::LogitRow
  std::vector<WorkerScratch> workers_;

  // The running batch; capacity is reserved at load.
  const std::vector<backend::Segment>* segments_ = nullptr;
  std::vector<Token> tokens_;
  std::int64_t writing_ = 0;  // tokens_ before those of the segments that read
  HeadKind kinds_[2];         // of all layers, or of those without a window and those with one
  std::vector<std::int64_t> segment_first_;  // token of the batch
  backend::StateBook state_book_;
  std::vector<backend::StateBook::Halves> halves_;  // of the batch's segments
  std::vector<std::int32_t> logit_tokens_;          // batch index of each logits row
  std::vector<std::atomic<std::int64_t>> tickets_;  // [ops][kRowGroupsMost]: next piece of work
  bool hidden_wanted_ = false;
  std::vector<std::int32_t> kept_;  // tokens of the batch that something is wanted of, rising
  bool few_wanted_ = false;         // behind for_all_ operations they are all that is left
  std::atomic<std::int32_t> bad_token_{-1};  // of the batch: a number of its result is not finite
};

}  // namespace holdfast::cpu
