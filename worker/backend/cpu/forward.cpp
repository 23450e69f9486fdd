// One forward pass: every worker walks the program, with a barrier after each operation.

#include <xmmintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "shared/base/progress.h"
#include "shared/gguf/quants.h"
#include "worker/backend/cpu/tiles.h"

namespace holdfast::cpu {
namespace {

constexpr unsigned kMxcsrDefault = 0x1f80;  // round to nearest, subnormals kept, no traps
constexpr unsigned kMxcsrFlags = 0x3f;      // sticky exception flags

constexpr auto kOnes = [] {
  std::array<float, kHeadDimMost> ones{};
  ones.fill(1);
  return ones;
}();

/// The thread's floating-point mode for the time of a forward: a library may have changed it.
class FloatMode {
 public:
  FloatMode() : before_(_mm_getcsr()) {
    _mm_setcsr(kMxcsrDefault);
    CHECK((_mm_getcsr() & ~kMxcsrFlags) == kMxcsrDefault);
  }
  ~FloatMode() { _mm_setcsr(before_); }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  unsigned before_;
};

}  // namespace

const float* CpuExecutor::hidden(std::int32_t i) const {
  const std::int32_t row = row_of(i);
  CHECK(row >= 0 && row < static_cast<std::int32_t>(tokens_.size()));
  return x_ + row * x_stride_;
}

backend::Memory CpuExecutor::memory() const {
  return {weights_used_, kv_used_, scratch_used_, found_packed_};
}

std::string CpuExecutor::class_prefix() const {
  // Where there are kernels for reading, which sequences take them is part of what decides bits.
  const std::string rule =
      kernels_.reading == nullptr ? "" : ":" + std::to_string(kernels_.read_for_written);
  return std::string("cpu/") + kernels_.name + "/" + kKernelsRev + rule;
}

Result<const float*> CpuExecutor::forward(const std::vector<backend::Segment>& segments) {
  plan_batch(segments);
  if (tokens_.empty()) return static_cast<const float*>(logits_);
  run_operations(0, ops_.size());
  return given_logits();
}

void CpuExecutor::embed(const std::vector<backend::Segment>& segments) {
  plan_batch(segments);
  run_operations(0, leading_);
}

Result<const float*> CpuExecutor::forward_rest() {
  run_operations(leading_, ops_.size());
  return given_logits();
}

Result<const float*> CpuExecutor::more_logits(std::int32_t first, std::int32_t n) {
  CHECK(n > 0 && n <= limits_.logit_rows);
  first = row_of(first);
  CHECK(first >= 0 && first + n <= static_cast<std::int32_t>(tokens_.size()));
  hidden_wanted_ = false;  // those rows are finished
  logit_tokens_.clear();
  for (std::int32_t i = first; i < first + n; ++i) logit_tokens_.push_back(i);
  bad_token_.store(-1, std::memory_order_relaxed);
  ticket(ops_.back()).store(0, std::memory_order_relaxed);
  pool_.run([this](int worker) {
    const FloatMode mode;
    logits(ops_.back(), worker);  // the loader has seen that it is
  });
  note_progress();
  return given_logits();
}

/// Of the tokens of logit_tokens_, row behind row; or what is wrong with them.
Result<const float*> CpuExecutor::given_logits() {
  const std::int32_t bad = bad_token_.load(std::memory_order_relaxed);
  if (bad >= 0) {
    const Token& token = tokens_[static_cast<std::size_t>(bad)];
    return Error{Errc::kNumericsNan, "forward: segment " + std::to_string(token.segment) +
                                         ", position " + std::to_string(token.position) +
                                         ": a logit or an output is NaN or infinite"};
  }
  if (logit_stride_ != shape_.vocab) {
    for (std::size_t i = 1; i < logit_tokens_.size(); ++i) {
      std::memmove(logits_ + static_cast<std::int64_t>(i) * shape_.vocab,
                   logits_ + static_cast<std::int64_t>(i) * logit_stride_,
                   static_cast<std::size_t>(shape_.vocab) * sizeof(float));
    }
  }
  return static_cast<const float*>(logits_);
}

void CpuExecutor::run_operations(std::size_t first, std::size_t end) {
  places_.enter(0);  // others than the thread that loaded may come
  if (few_wanted_ && kept_.empty()) end = std::min(end, std::max(first, for_all_));
  pool_.run([this, first, end](int worker) {
    const FloatMode mode;
    for (std::size_t i = first; i < end; ++i) {
      if (i == for_all_ && few_wanted_) {
        if (worker == 0) keep_wanted();
        pool_.barrier();
      }
      run_op(ops_[i], worker);
      pool_.barrier();
      if (worker == 0) note_progress();
    }
  });
}

void CpuExecutor::run_op(const PackedOp& op, int worker) {
  switch (op.kind) {
    case model::OpKind::kEmbed:
      look_up(worker);
      break;
    case model::OpKind::kNormQkv:
      qkv(op, worker);
      break;
    case model::OpKind::kAttention:
      attend(op, worker);
      break;
    case model::OpKind::kNormLatent:
    case model::OpKind::kLatentQuery:
    case model::OpKind::kLatentHeads:
    case model::OpKind::kLatentValues:
    case model::OpKind::kNormDelta:
    case model::OpKind::kDelta:
    case model::OpKind::kGateHeads:
    case model::OpKind::kLayerInputs:
    case model::OpKind::kNormKeep:
      run_beside_attention(op, worker);
      break;
    case model::OpKind::kOutAdd:
      if (shape_.latent > 0) {
        add_product(op, m_, m_stride_, worker);
      } else {
        add_product(op, a_, a_stride_, worker);
      }
      break;
    case model::OpKind::kNormGateUp:
      gate_up(op, worker);
      break;
    case model::OpKind::kDownAdd:
      add_product(op, f_, f_stride_, worker);
      break;
    case model::OpKind::kNormLogits:
      logits(op, worker);
      break;
    case model::OpKind::kEmbedMore:
      embed_more(op, worker);
      break;
    case model::OpKind::kQkNorm:
      norm_qk(op, worker);
      break;
    case model::OpKind::kNormAdd:
      norm_add(op, worker);
      break;
    case model::OpKind::kNorm:
      norm_self(op, worker);
      break;
    case model::OpKind::kRoute:
      route(op, worker);
      break;
    case model::OpKind::kExpertGateUp:
      expert_gate_up(op, worker);
      break;
    case model::OpKind::kExpertDownAdd:
      expert_down(op, worker);
      break;
  }
}

/// What stands in attention's place, or around it, in few architectures, and what only those have.
void CpuExecutor::run_beside_attention(const PackedOp& op, int worker) {
  switch (op.kind) {
    case model::OpKind::kNormLatent:
      return norm_latent(op, worker);
    case model::OpKind::kLatentQuery:
      return latent_query(op, worker);
    case model::OpKind::kLatentHeads:
      return latent_heads(op, worker);
    case model::OpKind::kLatentValues:
      return latent_values(op, worker);
    case model::OpKind::kNormDelta:
      return norm_delta(op, worker);
    case model::OpKind::kDelta:
      return delta(op, worker);
    case model::OpKind::kGateHeads:
      return gate_heads(worker);
    case model::OpKind::kLayerInputs:
      return layer_inputs(op, worker);
    case model::OpKind::kNormKeep:
      return norm_keep(op, worker);
    default:
      CHECK_MSG(false, "an operation of run_op()");
  }
}

void CpuExecutor::look_up(int worker) {
  const Share share = share_of(static_cast<std::int64_t>(tokens_.size()), worker, pool_.size());
  float* row = workers_[static_cast<std::size_t>(worker)].row;
  const auto row_bytes = static_cast<std::size_t>(shape_.width) * sizeof(float);
  for (std::int64_t i = share.first; i < share.last; ++i) {
    const std::int64_t id = tokens_[static_cast<std::size_t>(i)].id;
    if (embedding_.packed != nullptr) {
      kernels_.unpack_row(*embedding_.packed, id, row);
    } else {
      const auto done = gguf::dequantize_row(
          embedding_.type, embedding_.rows + static_cast<std::size_t>(id) * embedding_.row_bytes,
          row, static_cast<std::uint64_t>(shape_.width));
      CHECK(done.has_value());  // the loader has read every row
    }
    std::memcpy(x_ + i * x_stride_, row, row_bytes);
  }
}

/// Bytes from row to row of rows of so many floats, in a form: whole lines of the cache, since
/// tiles are loaded by lines, no more of them than its k takes, and an odd number, so that rows do
/// not share the cache's sets. The block that each row has over (load.cpp) is room enough for that.
std::int64_t CpuExecutor::q_stride(const RowForms& form, std::int64_t floats) const {
  constexpr std::int64_t kLine = 64;
  const bool all_write = writing_ == static_cast<std::int64_t>(tokens_.size());
  const std::int64_t written = form.writing != nullptr ? form.writing->block_bytes : 0;
  const std::int64_t read = form.reading != nullptr ? form.reading->block_bytes : 0;
  const std::int64_t block = writing_ == 0 ? read : all_write ? written : std::max(written, read);
  return (round_up(floats / kActivationBlock * block, kLine) / kLine | 1) * kLine;
}

void CpuExecutor::form_row(const PackedOp& op, bool reads, const float* x, std::uint8_t* q) const {
  const RowForm* form = reads ? op.form.reading : op.form.writing;
  if (form != nullptr) form->make(x, op.formed, q);
}

/// The rows of a product: the operation's norm of x, or x as it is, also in the form that its
/// weights want. Few rows: each thread has its own copy, which is cheaper than a barrier.
Operand CpuExecutor::operand(const PackedOp& op, const float* x, std::int64_t stride,
                             std::int64_t rows, std::int64_t writing, int worker) {
  const WorkerScratch& own = workers_[static_cast<std::size_t>(worker)];
  const bool alone = rows <= kPrivateRows;
  const bool norm = op.norm != nullptr;
  const bool formed = op.formed > 0;
  const std::int64_t q_bytes = q_stride(op.form, op.formed);
  float* h = alone ? own.rows : h_;
  std::uint8_t* q = alone ? own.blocks : blocks_;
  if (!norm && op.from_h) x = h_;
  const Share share = alone ? Share{0, rows} : share_of(rows, worker, pool_.size());
  for (std::int64_t i = share.first; i < share.last; ++i) {
    if (norm) norm_row(op, x + i * stride, h + i * stride);
    if (formed) form_row(op, i >= writing, (norm ? h : x) + i * stride, q + i * q_bytes);
  }
  if (!alone && (norm || formed)) pool_.barrier();
  return {norm ? h : x, stride, formed ? q : nullptr, q_bytes, rows, writing, op.coarse};
}

/// Of all tokens of the batch.
Operand CpuExecutor::token_operand(const PackedOp& op, const float* x, std::int64_t stride,
                                   int worker) {
  const auto rows = static_cast<std::int64_t>(tokens_.size());
  if (!op.handed) return operand(op, x, stride, rows, writing_, worker);
  const auto* q = reinterpret_cast<const std::uint8_t*>(f_);
  return {nullptr, 0, q, q_stride(op.form, op.formed), rows, writing_, op.coarse};
}

MatmulArgs CpuExecutor::product(const PackedMatrix& w, const Operand& x, int worker) const {
  MatmulArgs args;
  args.w = &w;
  args.x = x.x;
  args.x_stride = x.x_stride;
  args.q = x.q;
  args.q_stride = x.q_stride;
  args.rows = x.rows;
  args.coarse = x.coarse;
  args.scratch = workers_[static_cast<std::size_t>(worker)].unpack;
  return args;
}

/// The first `writing` rows by the family's own kernels, the others by those for segments that
/// read.
void CpuExecutor::multiply(const MatmulArgs& args, std::int64_t writing) const {
  // Not by a copy: it would wait for what the caller has just stored into args.
  if (args.rows <= writing) return kernels_.matmul(args);
  MatmulArgs some = args;
  some.rows = writing;
  some.next = nullptr;  // the others come first
  if (writing > 0) kernels_.matmul(some);
  some.next = args.next;
  some.rows = args.rows - writing;
  some.x += writing * args.x_stride;
  if (args.q != nullptr) some.q += writing * args.q_stride;
  some.y += writing * args.y_stride;
  reading_.matmul(some);
}

std::uint8_t* CpuExecutor::page_of(const PackedOp& op, bool value, std::int64_t head) const {
  const HeadKind& kind = kind_of(op);
  const std::int64_t behind = value ? kind.page_bytes * limits_.pages : 0;
  return kv_.data() + op.pages_at + behind + head * (kind.page_bytes / kind.kv_heads);
}

void CpuExecutor::qkv(const PackedOp& op, int worker) {
  const Operand h = token_operand(op, x_, x_stride_, worker);
  const RowGroups groups = row_groups(h);
  for_groups(groups, qkv_pieces(op), 1, op, h, worker,
             [&](const Operand& rows, std::int64_t first, std::int64_t at, std::int64_t) {
               qkv_head(op, at, rows, first, likely_next(at, 1, groups.threads), worker);
             });
}

/// Heads of q, k and v that have rows in a matrix.
std::int64_t CpuExecutor::qkv_pieces(const PackedOp& op) const {
  std::int64_t pieces = q_pieces(op);
  for (int i = 1; i < 3; ++i) pieces += op.matrix[i].panels > 0 ? kind_of(op).kv_heads : 0;
  return pieces;
}

/// The head-th of the heads of q, k and v: whose (0, 1 or 2), and which of them.
CpuExecutor::Head CpuExecutor::head_of(const PackedOp& op, std::int64_t head) const {
  const std::int64_t after_q = head - q_pieces(op);
  if (after_q < 0) return {0, head};
  const std::int64_t kv_heads = kind_of(op).kv_heads;
  return {after_q < kv_heads ? 1 : 2, after_q % kv_heads};
}

/// A head of q, k or v of the rows h, the batch's from `first` on: product, bias, norm, rotation,
/// and its way into the pages. The head `next` is likely to follow.
void CpuExecutor::qkv_head(const PackedOp& op, std::int64_t at, const Operand& h,
                           std::int64_t first, std::int64_t next, int worker) {
  auto [which, head] = head_of(op, at);
  const std::int64_t panels = kind_of(op).pad / kLanes;
  MatmulArgs args = product(op.matrix[which], h, worker);
  args.p0 = head * panels;
  args.p1 = (head + 1) * panels;
  if (next < qkv_pieces(op)) {
    expect(args, op.matrix[head_of(op, next).which], head_of(op, next).index * panels, panels);
  }
  const bool gate = op.gated && which == 0 && head % 2 == 1;
  if (op.gated && which == 0) head /= 2;
  const bool stays = which == 0 && !gate;
  args.y = stays ? q_ + first * q_stride_ + head * panels * kLanes
                 : workers_[static_cast<std::size_t>(worker)].tile;
  args.y_stride = stays ? q_stride_ : tile_cols_;
  multiply(args, h.writing);
  if (gate) return keep_gate(head, first, args);
  finish_head(op, which, head, first, args, worker);
}

/// What a head's output is multiplied by later (kGateHeads).
void CpuExecutor::keep_gate(std::int64_t head, std::int64_t first, const MatmulArgs& args) const {
  const auto bytes = static_cast<std::size_t>(shape_.head_dim) * sizeof(float);
  for (std::int64_t i = 0; i < args.rows; ++i) {
    std::memcpy(z_ + (first + i) * a_stride_ + head * shape_.head_dim, args.y + i * args.y_stride,
                bytes);
  }
}

void CpuExecutor::finish_head(const PackedOp& op, int which, std::int64_t head, std::int64_t first,
                              const MatmulArgs& args, int worker) {
  const HeadKind& kind = kind_of(op);
  const bool value_too = which == 1 && op.matrix[2].panels == 0;
  const bool normed = which < 2 && op.head_norm[which] != nullptr;
  float* own = workers_[static_cast<std::size_t>(worker)].attention;
  float* values = args.y;
  for (std::int64_t i = first; i < first + args.rows; ++i, values += args.y_stride) {
    const Token& token = tokens_[static_cast<std::size_t>(i)];
    if (op.bias[which] != nullptr) {
      kernels_.add(values, op.bias[which] + head * kind.pad, kind.pad);
    }
    if (op.row_norm && which < 2) {  // goes on in norm_qk
      if (which == 1) {
        std::memcpy(k_ + i * k_stride_ + head * head_pad_, values,
                    static_cast<std::size_t>(head_pad_) * sizeof(float));
      }
      continue;
    }
    if (which == 2 || value_too) finish_value(op, head, token, values, own);
    if (which == 2) continue;
    if (normed) {
      kernels_.rmsnorm(values, op.head_norm[which], kind.head_dim,
                       static_cast<float>(shape_.norm_eps), values);
    }
    rotate(which == 0 ? op.query_rope : op.rope, values, token.position);
    if (which == 1) store(op, 1, head, token, values);
  }
}

/// A head's value into its page, normed in `own` where the model norms them.
void CpuExecutor::finish_value(const PackedOp& op, std::int64_t head, const Token& token,
                               const float* value, float* own) {
  if (op.value_norm) {
    kernels_.rmsnorm(value, kOnes.data(), kind_of(op).head_dim, static_cast<float>(shape_.norm_eps),
                     own);
    value = own;
  }
  store(op, 2, head, token, value);
}

/// Where piece `at` of attention begins to read.
const std::uint8_t* CpuExecutor::first_keys(const PackedOp& op, std::int64_t at) const {
  const HeadKind& kind = kind_of(op);
  const TokenRun& run = kind.runs[static_cast<std::size_t>(at / kind.kv_heads)];
  const std::int64_t position = tokens_[static_cast<std::size_t>(run.first)].position;
  const std::int64_t seen = op.window > 0 ? std::max<std::int64_t>(0, position + 1 - op.window) : 0;
  const backend::Segment& segment = (*segments_)[static_cast<std::size_t>(run.segment)];
  return page_of(op, false, at % kind.kv_heads) +
         segment.pages[seen / kPageTokens] * kind.page_bytes;
}

void CpuExecutor::attend(const PackedOp& op, int worker) {
  const HeadKind& kind = kind_of(op);
  const auto group = static_cast<std::int32_t>(shape_.heads / kind.kv_heads);
  std::atomic<std::int64_t>& next_piece = ticket(op);
  const auto work = static_cast<std::int64_t>(kind.runs.size()) * kind.kv_heads;
  for (;;) {
    const std::int64_t at = next_piece.fetch_add(1, std::memory_order_relaxed);
    if (at >= work) return;
    const TokenRun& run = kind.runs[static_cast<std::size_t>(at / kind.kv_heads)];
    const std::int64_t head = at % kind.kv_heads;
    AttentionArgs args;
    args.k = page_of(op, false, head);
    args.v = page_of(op, true, head);
    args.page_bytes = kind.page_bytes;
    args.pages = (*segments_)[static_cast<std::size_t>(run.segment)].pages;
    args.kv = kv_type_;
    args.q = q_ + run.first * q_stride_ + head * group * kind.pad;
    args.q_stride = q_stride_;
    args.out = a_ + run.first * a_stride_ + head * group * kind.head_dim;
    args.out_stride = a_stride_;
    args.start = tokens_[static_cast<std::size_t>(run.first)].position;
    args.tokens = run.count;
    args.group = group;
    args.head_dim = static_cast<std::int32_t>(kind.head_dim);
    args.head_pad = static_cast<std::int32_t>(kind.pad);
    args.scale = op.scale > 0 ? op.scale : 1.0f / std::sqrt(static_cast<float>(kind.head_dim));
    if (of_two_kinds() && head == 0) {
      end_rows_of_a(run.first, run.count, shape_.heads * kind.head_dim);
    }
    args.scratch = workers_[static_cast<std::size_t>(worker)].attention;
    const std::int64_t next = at + pool_.size();  // likely
    args.then = first_keys(op, next < work ? next : at);
    const Kernels& kernels = run.first < writing_ ? kernels_ : reading_;
    if (!op.more) {
      kernels.attention(args);
      continue;
    }
    args.window = op.window;
    args.cap = op.cap;
    if (op.sinks != nullptr) args.sinks = op.sinks + head * group;
    if (!shape_.causal) args.seen = (*segments_)[static_cast<std::size_t>(run.segment)].n;
    kernels.attention_ranged(args);
  }
}

void CpuExecutor::add_product(const PackedOp& op, const float* x, std::int64_t stride, int worker) {
  if (op.more) return product_more(op, x, stride, worker);
  product_pieces(op, x, stride, worker,
                 [&](float* y, std::int64_t i, std::int64_t p0, std::int64_t n) {
                   kernels_.add(x_ + i * x_stride_ + p0 * kLanes, y, n);
                 });
}

/// Where a piece of f from row `first` and panel p0 on is made: in its place, or in a tile that
/// stays in the cache until hand_on() has given it its form.
FloatRows CpuExecutor::rows_of_f(const PackedOp& op, std::int64_t first, std::int64_t p0,
                                 int worker) {
  if (op.hands_on.writing == nullptr) return {f_ + first * f_stride_ + p0 * kLanes, f_stride_};
  return {workers_[static_cast<std::size_t>(worker)].piece, piece_cols_};
}

/// What lies behind f's rows in the last block of a product's k may be of a wider layer, or of rows
/// in a form: no numbers.
void CpuExecutor::end_rows_of_f(const PackedOp& op, std::int64_t first, std::int64_t rows) const {
  const std::int64_t n = op.matrix[0].panels * kLanes;
  const std::int64_t more = round_up(n, kSpan) - n;
  if (more == 0 || op.hands_on.writing != nullptr) return;
  for (std::int64_t i = first; i < first + rows; ++i) {
    std::memset(f_ + i * f_stride_ + n, 0, static_cast<std::size_t>(more) * sizeof(float));
  }
}

/// Panels [p0, p1) of row i of f, finished, for the product that comes next.
void CpuExecutor::hand_on(const PackedOp& op, const float* f, std::int64_t i, std::int64_t p0,
                          std::int64_t p1) const {
  if (op.hands_on.writing == nullptr) return;
  const RowForm& form = i < writing_ ? *op.hands_on.writing : *op.hands_on.reading;
  const std::int64_t row = i * q_stride(op.hands_on, op.matrix[0].panels * kLanes);
  const std::int64_t at = p0 * kLanes / kActivationBlock * form.block_bytes;
  form.make(f, (p1 - p0) * kLanes, reinterpret_cast<std::uint8_t*>(f_) + row + at);
}

void CpuExecutor::gate_up(const PackedOp& op, int worker) {
  if (op.more) return gate_up_more(op, worker);
  gate_up_pieces(op, worker,
                 [&](float* gate, const float* up, std::int64_t, std::int64_t, std::int64_t n) {
                   kernels_.silu_mul(gate, up, n);
                 });
}

void CpuExecutor::logits(const PackedOp& op, int worker) {
  const auto rows = static_cast<std::int64_t>(logit_tokens_.size());
  if (rows == 0) return finish_hidden(op, worker);
  const Share share = share_of(rows, worker, pool_.size());
  for (std::int64_t i = share.first; i < share.last; ++i) {
    std::memcpy(wanted_ + i * x_stride_,
                x_ + logit_tokens_[static_cast<std::size_t>(i)] * x_stride_,
                static_cast<std::size_t>(x_stride_) * sizeof(float));
  }
  pool_.barrier();
  finish_hidden(op, worker);
  const auto first_reading = std::lower_bound(logit_tokens_.begin(), logit_tokens_.end(), writing_);
  const Operand h =
      operand(op, wanted_, x_stride_, rows, first_reading - logit_tokens_.begin(), worker);
  MatmulArgs args = product(op.matrix[0], h, worker);
  args.y_stride = logit_stride_;
  constexpr std::int64_t kPer = 8 * kTilePanels, kBlockPanels = backend::kBlockIds / kLanes;
  static_assert(kPer % kBlockPanels == 0);
  for_tiles(
      op.matrix[0].panels, kPer, op, worker,
      [&](std::int64_t p0, std::int64_t p1) {
        args.p0 = p0;
        args.p1 = p1;
        args.y = logits_ + p0 * kLanes;
        expect(args, op.matrix[0], likely_next(p0, kPer, pool_.size()), kTilePanels);
        multiply(args, h.writing);
        for (std::int64_t i = 0; i < rows; ++i) {
          if (finish_logits(op, i, p0, p1)) continue;
          bad_token_.store(logit_tokens_[static_cast<std::size_t>(i)], std::memory_order_relaxed);
        }
      },
      kBlockPanels);
}

/// Panels [p0, p1) of a row of logits behind their product, while they are in the cache: whole
/// blocks of a LogitRow, or the last ones. False: one is not finite.
bool CpuExecutor::finish_logits(const PackedOp& op, std::int64_t row, std::int64_t p0,
                                std::int64_t p1) const {
  float* y = logits_ + row * logit_stride_;
  const std::int64_t first = p0 * kLanes, end = std::min(p1 * kLanes, shape_.vocab);
  CHECK(first % backend::kBlockIds == 0);
  if (op.more) kernels_.scale_cap(y + first, op.scale, op.cap, (p1 - p0) * kLanes);
  float* maxima = maxima_ + row * maxima_stride_;
  for (std::int64_t i = first; i < end; i += backend::kBlockIds) {
    maxima[i / backend::kBlockIds] =
        kernels_.max_of(y + i, std::min<std::int64_t>(backend::kBlockIds, end - i));
  }
  return kernels_.all_finite(y + first, end - first);
}

}  // namespace holdfast::cpu
