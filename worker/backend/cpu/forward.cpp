// One forward pass: every worker walks the program, with a barrier after each operation.

#include <xmmintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "shared/base/progress.h"
#include "shared/gguf/quants.h"
#include "worker/backend/cpu/work_items.h"

namespace holdfast::cpu {
namespace {

constexpr unsigned kMxcsrDefault = 0x1f80;  // round to nearest, subnormals kept, no traps
constexpr unsigned kMxcsrFlags = 0x3f;      // sticky exception flags

constexpr auto kOnes = [] {
  std::array<float, kHeadDimMost> ones{};
  ones.fill(1);
  return ones;
}();

/// Sets the thread's floating-point mode for the time of a forward: a library may have changed it.
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
  // Where there are prefill-heavy kernels, the rule which sequences take them decides bits too.
  const std::string rule =
      kernels_.prefill_heavy == nullptr ? "" : ":" + std::to_string(kernels_.prefill_heavy_ratio);
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

Result<const float*> CpuExecutor::compute_deferred_logits(std::int32_t first, std::int32_t n) {
  CHECK(n > 0 && n <= limits_.logit_rows);
  first = row_of(first);
  CHECK(first >= 0 && first + n <= static_cast<std::int32_t>(tokens_.size()));
  hidden_requested_ = false;  // those rows were finished by the forward
  logit_tokens_.clear();
  for (std::int32_t i = first; i < first + n; ++i) logit_tokens_.push_back(i);
  bad_token_.store(-1, std::memory_order_relaxed);
  ticket(ops_.back()).store(0, std::memory_order_relaxed);
  pool_.run([this](int worker) {
    const FloatMode mode;
    logits(ops_.back(), worker);  // kNormLogits: the loader has checked that
  });
  note_progress();
  return given_logits();
}

/// The logits of the tokens of logit_tokens_, row after row, or the error of a result that is not
/// finite.
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
  numa_nodes_.enter(0);  // the caller may be another thread than the one that loaded
  if (compacts_rows_ && output_tokens_.empty()) end = std::min(end, std::max(first, for_all_));
  pool_.run([this, first, end](int worker) {
    const FloatMode mode;
    for (std::size_t i = first; i < end; ++i) {
      if (i == for_all_ && compacts_rows_) {
        if (worker == 0) compact_batch();
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
    case model::OpKind::kNormStore:
      run_variant_op(op, worker);
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
    case model::OpKind::kEmbedScaleAdd:
      embed_scale_add(op, worker);
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

/// Runs an operation in attention's place, or around it, that only few architectures have.
void CpuExecutor::run_variant_op(const PackedOp& op, int worker) {
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
    case model::OpKind::kNormStore:
      return norm_store(op, worker);
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

/// The stride in bytes of rows of `floats` floats in an activation format: whole cache lines, since
/// tiles are loaded by lines, no more of them than the row's k takes, and an odd number, so that
/// rows do not share cache sets. The extra block of each row (load.cpp) is memory enough for that.
std::int64_t CpuExecutor::q_stride(const ActivationFormats& activation_format,
                                   std::int64_t floats) const {
  constexpr std::int64_t kLine = 64;
  const bool all_decode_heavy = decode_heavy_rows_ == static_cast<std::int64_t>(tokens_.size());
  const std::int64_t decode_heavy_block =
      activation_format.decode_heavy != nullptr ? activation_format.decode_heavy->block_bytes : 0;
  const std::int64_t prefill_heavy_block =
      activation_format.prefill_heavy != nullptr ? activation_format.prefill_heavy->block_bytes : 0;
  const std::int64_t block = decode_heavy_rows_ == 0 ? prefill_heavy_block
                             : all_decode_heavy      ? decode_heavy_block
                                                : std::max(decode_heavy_block, prefill_heavy_block);
  return (round_up(floats / kActivationBlock * block, kLine) / kLine | 1) * kLine;
}

void CpuExecutor::encode_row(const PackedOp& op, bool prefill_heavy, const float* x,
                             std::uint8_t* q) const {
  const ActivationFormat* activation_format =
      prefill_heavy ? op.activation_format.prefill_heavy : op.activation_format.decode_heavy;
  if (activation_format != nullptr) activation_format->make(x, op.formed, q);
}

/// The rows of a product: the operation's norm of x, or x itself, also encoded in the format that
/// its weights take. In a small batch each thread makes its own copy, which is cheaper than a
/// barrier.
Operand CpuExecutor::operand(const PackedOp& op, const float* x, std::int64_t stride,
                             std::int64_t rows, std::int64_t decode_heavy_rows, int worker) {
  const WorkerScratch& scratch = workers_[static_cast<std::size_t>(worker)];
  const bool alone = rows <= kPrivateRows;
  const bool norm = op.norm != nullptr;
  const bool formed = op.formed > 0;
  const std::int64_t q_bytes = q_stride(op.activation_format, op.formed);
  float* h = alone ? scratch.rows : h_;
  std::uint8_t* q = alone ? scratch.blocks : blocks_;
  if (!norm && op.from_h) x = h_;
  const Share share = alone ? Share{0, rows} : share_of(rows, worker, pool_.size());
  for (std::int64_t i = share.first; i < share.last; ++i) {
    if (norm) norm_row(op, x + i * stride, h + i * stride);
    if (formed)
      encode_row(op, i >= decode_heavy_rows, (norm ? h : x) + i * stride, q + i * q_bytes);
  }
  if (!alone && (norm || formed)) pool_.barrier();
  return {norm ? h : x, stride, formed ? q : nullptr, q_bytes, rows, decode_heavy_rows, op.int8};
}

/// operand() for all tokens of the batch.
Operand CpuExecutor::token_operand(const PackedOp& op, const float* x, std::int64_t stride,
                                   int worker) {
  const auto rows = static_cast<std::int64_t>(tokens_.size());
  if (!op.input_encoded) return operand(op, x, stride, rows, decode_heavy_rows_, worker);
  const auto* q = reinterpret_cast<const std::uint8_t*>(f_);
  return {nullptr, 0, q, q_stride(op.activation_format, op.formed), rows, decode_heavy_rows_,
          op.int8};
}

MatmulArgs CpuExecutor::product(const PackedMatrix& w, const Operand& x, int worker) const {
  MatmulArgs args;
  args.w = &w;
  args.x = x.x;
  args.x_stride = x.x_stride;
  args.q = x.q;
  args.q_stride = x.q_stride;
  args.rows = x.rows;
  args.int8 = x.int8;
  args.scratch = workers_[static_cast<std::size_t>(worker)].unpack;
  return args;
}

/// Multiplies the first `decode_heavy_rows` rows with the family's own kernels, the others with the
/// prefill-heavy ones.
void CpuExecutor::multiply(const MatmulArgs& args, std::int64_t decode_heavy_rows) const {
  // Without a copy: that would wait for what the caller has just stored into args.
  if (args.rows <= decode_heavy_rows) return kernels_.matmul(args);
  MatmulArgs some = args;
  some.rows = decode_heavy_rows;
  some.next = nullptr;  // the other rows come first
  if (decode_heavy_rows > 0) kernels_.matmul(some);
  some.next = args.next;
  some.rows = args.rows - decode_heavy_rows;
  some.x += decode_heavy_rows * args.x_stride;
  if (args.q != nullptr) some.q += decode_heavy_rows * args.q_stride;
  some.y += decode_heavy_rows * args.y_stride;
  prefill_kernels_.matmul(some);
}

std::uint8_t* CpuExecutor::page_of(const PackedOp& op, bool value, std::int64_t head) const {
  const HeadKind& kind = kind_of(op);
  const std::int64_t value_offset = value ? kind.page_bytes * limits_.pages : 0;
  return kv_.data() + op.pages_at + value_offset + head * (kind.page_bytes / kind.kv_heads);
}

void CpuExecutor::qkv(const PackedOp& op, int worker) {
  const Operand h = token_operand(op, x_, x_stride_, worker);
  const RowGroups groups = row_groups(h);
  for_groups(groups, qkv_items(op), 1, op, h, worker,
             [&](const Operand& rows, std::int64_t first, std::int64_t at, std::int64_t) {
               qkv_head(op, at, rows, first, likely_next(at, 1, groups.threads), worker);
             });
}

/// The number of heads of q, k and v that have rows in a matrix.
std::int64_t CpuExecutor::qkv_items(const PackedOp& op) const {
  std::int64_t items = q_items(op);
  for (int i = 1; i < 3; ++i) items += op.matrix[i].panels > 0 ? kind_of(op).kv_heads : 0;
  return items;
}

/// Head `head` of q, k and v together: its matrix (0, 1 or 2), and its index there.
CpuExecutor::Head CpuExecutor::head_of(const PackedOp& op, std::int64_t head) const {
  const std::int64_t after_q = head - q_items(op);
  if (after_q < 0) return {0, head};
  const std::int64_t kv_heads = kind_of(op).kv_heads;
  return {after_q < kv_heads ? 1 : 2, after_q % kv_heads};
}

/// Computes a head of q, k or v of the rows h, which are the batch's from `first` on: product,
/// bias, norm, rotation, and the stores into the pages. Head `next` probably follows.
void CpuExecutor::qkv_head(const PackedOp& op, std::int64_t at, const Operand& h,
                           std::int64_t first, std::int64_t next, int worker) {
  auto [which, head] = head_of(op, at);
  const std::int64_t panels = kind_of(op).pad / kLanes;
  MatmulArgs args = product(op.matrix[which], h, worker);
  args.p0 = head * panels;
  args.p1 = (head + 1) * panels;
  if (next < qkv_items(op)) {
    expect(args, op.matrix[head_of(op, next).which], head_of(op, next).index * panels, panels);
  }
  const bool gate = op.gated && which == 0 && head % 2 == 1;
  if (op.gated && which == 0) head /= 2;
  const bool stays = which == 0 && !gate;
  args.y = stays ? q_ + first * q_stride_ + head * panels * kLanes
                 : workers_[static_cast<std::size_t>(worker)].tile;
  args.y_stride = stays ? q_stride_ : tile_cols_;
  multiply(args, h.decode_heavy_rows);
  if (gate) return store_gate(head, first, args);
  finish_head(op, which, head, first, args, worker);
}

/// Stores a head's gate, which its output is multiplied by later (kGateHeads).
void CpuExecutor::store_gate(std::int64_t head, std::int64_t first, const MatmulArgs& args) const {
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
  float* scratch = workers_[static_cast<std::size_t>(worker)].attention;
  float* values = args.y;
  for (std::int64_t i = first; i < first + args.rows; ++i, values += args.y_stride) {
    const Token& token = tokens_[static_cast<std::size_t>(i)];
    if (op.bias[which] != nullptr) {
      kernels_.add(values, op.bias[which] + head * kind.pad, kind.pad);
    }
    if (op.row_norm && which < 2) {  // continued in norm_qk
      if (which == 1) {
        std::memcpy(k_ + i * k_stride_ + head * head_pad_, values,
                    static_cast<std::size_t>(head_pad_) * sizeof(float));
      }
      continue;
    }
    if (which == 2 || value_too) finish_value(op, head, token, values, scratch);
    if (which == 2) continue;
    if (normed) {
      kernels_.rmsnorm(values, op.head_norm[which], kind.head_dim,
                       static_cast<float>(shape_.norm_eps), values);
    }
    rotate(which == 0 ? op.query_rope : op.rope, values, token.position);
    if (which == 1) store(op, 1, head, token, values);
  }
}

/// Stores a head's value into its page, normed in `scratch` where the model norms values.
void CpuExecutor::finish_value(const PackedOp& op, std::int64_t head, const Token& token,
                               const float* value, float* scratch) {
  if (op.value_norm) {
    kernels_.rmsnorm(value, kOnes.data(), kind_of(op).head_dim, static_cast<float>(shape_.norm_eps),
                     scratch);
    value = scratch;
  }
  store(op, 2, head, token, value);
}

/// The keys that work item `at` of attention reads first.
const std::uint8_t* CpuExecutor::first_keys(const PackedOp& op, std::int64_t at) const {
  const HeadKind& kind = kind_of(op);
  const TokenRun& run = kind.runs[static_cast<std::size_t>(at / kind.kv_heads)];
  const std::int64_t position = tokens_[static_cast<std::size_t>(run.first)].position;
  const std::int64_t window_begin =
      op.window > 0 ? std::max<std::int64_t>(0, position + 1 - op.window) : 0;
  const backend::Segment& segment = (*segments_)[static_cast<std::size_t>(run.segment)];
  return page_of(op, false, at % kind.kv_heads) +
         segment.pages[window_begin / kPageTokens] * kind.page_bytes;
}

void CpuExecutor::attend(const PackedOp& op, int worker) {
  const HeadKind& kind = kind_of(op);
  const auto group = static_cast<std::int32_t>(shape_.heads / kind.kv_heads);
  std::atomic<std::int64_t>& next_item = ticket(op);
  const auto work = static_cast<std::int64_t>(kind.runs.size()) * kind.kv_heads;
  for (;;) {
    const std::int64_t at = next_item.fetch_add(1, std::memory_order_relaxed);
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
    const Kernels& kernels = run.first < decode_heavy_rows_ ? kernels_ : prefill_kernels_;
    if (!op.general_path) {
      kernels.attention(args);
      continue;
    }
    args.window = op.window;
    args.cap = op.cap;
    if (op.sinks != nullptr) args.sinks = op.sinks + head * group;
    if (!shape_.causal) args.noncausal_end = (*segments_)[static_cast<std::size_t>(run.segment)].n;
    kernels.attention_ranged(args);
  }
}

void CpuExecutor::add_product(const PackedOp& op, const float* x, std::int64_t stride, int worker) {
  if (op.general_path) return product_general(op, x, stride, worker);
  run_product_items(op, x, stride, worker,
                    [&](float* y, std::int64_t i, std::int64_t p0, std::int64_t n) {
                      kernels_.add(x_ + i * x_stride_ + p0 * kLanes, y, n);
                    });
}

/// The destination of a work item of f from row `first` and panel p0 on: its place in f, or a tile
/// that stays in the cache until run_epilogue() has encoded it.
FloatRows CpuExecutor::rows_of_f(const PackedOp& op, std::int64_t first, std::int64_t p0,
                                 int worker) {
  if (op.fused_format.decode_heavy == nullptr)
    return {f_ + first * f_stride_ + p0 * kLanes, f_stride_};
  return {workers_[static_cast<std::size_t>(worker)].item_rows, item_cols_};
}

/// Clears the floats after f's rows up to the end of a product's last block of k: a wider layer's
/// numbers or encoded rows may lie there.
void CpuExecutor::end_rows_of_f(const PackedOp& op, std::int64_t first, std::int64_t rows) const {
  const std::int64_t n = op.matrix[0].panels * kLanes;
  const std::int64_t padding = round_up(n, kSpan) - n;
  if (padding == 0 || op.fused_format.decode_heavy != nullptr) return;
  for (std::int64_t i = first; i < first + rows; ++i) {
    std::memset(f_ + i * f_stride_ + n, 0, static_cast<std::size_t>(padding) * sizeof(float));
  }
}

/// Encodes finished panels [p0, p1) of row i of f for the next product, where that is fused.
void CpuExecutor::run_epilogue(const PackedOp& op, const float* f, std::int64_t i, std::int64_t p0,
                               std::int64_t p1) const {
  if (op.fused_format.decode_heavy == nullptr) return;
  const ActivationFormat& activation_format =
      i < decode_heavy_rows_ ? *op.fused_format.decode_heavy : *op.fused_format.prefill_heavy;
  const std::int64_t row = i * q_stride(op.fused_format, op.matrix[0].panels * kLanes);
  const std::int64_t at = p0 * kLanes / kActivationBlock * activation_format.block_bytes;
  activation_format.make(f, (p1 - p0) * kLanes, reinterpret_cast<std::uint8_t*>(f_) + row + at);
}

void CpuExecutor::gate_up(const PackedOp& op, int worker) {
  if (op.general_path) return gate_up_general(op, worker);
  run_gate_up_items(op, worker,
                    [&](float* gate, const float* up, std::int64_t, std::int64_t, std::int64_t n) {
                      kernels_.silu_mul(gate, up, n);
                    });
}

void CpuExecutor::logits(const PackedOp& op, int worker) {
  const auto rows = static_cast<std::int64_t>(logit_tokens_.size());
  if (rows == 0) return finish_hidden(op, worker);
  const Share share = share_of(rows, worker, pool_.size());
  for (std::int64_t i = share.first; i < share.last; ++i) {
    std::memcpy(logit_inputs_ + i * x_stride_,
                x_ + logit_tokens_[static_cast<std::size_t>(i)] * x_stride_,
                static_cast<std::size_t>(x_stride_) * sizeof(float));
  }
  pool_.barrier();
  finish_hidden(op, worker);
  const auto first_prefill_heavy =
      std::lower_bound(logit_tokens_.begin(), logit_tokens_.end(), decode_heavy_rows_);
  const Operand h = operand(op, logit_inputs_, x_stride_, rows,
                            first_prefill_heavy - logit_tokens_.begin(), worker);
  MatmulArgs args = product(op.matrix[0], h, worker);
  args.y_stride = logit_stride_;
  constexpr std::int64_t kPer = 8 * kTilePanels, kBlockPanels = backend::kBlockIds / kLanes;
  static_assert(kPer % kBlockPanels == 0);
  for_items(
      op.matrix[0].panels, kPer, op, worker,
      [&](std::int64_t p0, std::int64_t p1) {
        args.p0 = p0;
        args.p1 = p1;
        args.y = logits_ + p0 * kLanes;
        expect(args, op.matrix[0], likely_next(p0, kPer, pool_.size()), kTilePanels);
        multiply(args, h.decode_heavy_rows);
        for (std::int64_t i = 0; i < rows; ++i) {
          if (finish_logits(op, i, p0, p1)) continue;
          bad_token_.store(logit_tokens_[static_cast<std::size_t>(i)], std::memory_order_relaxed);
        }
      },
      kBlockPanels);
}

/// Scales panels [p0, p1) of a row of logits and finds their maxima while they are in the cache:
/// whole blocks of a LogitRow, or the last ones. False: a logit is not finite.
bool CpuExecutor::finish_logits(const PackedOp& op, std::int64_t row, std::int64_t p0,
                                std::int64_t p1) const {
  float* y = logits_ + row * logit_stride_;
  const std::int64_t first = p0 * kLanes, end = std::min(p1 * kLanes, shape_.vocab);
  CHECK(first % backend::kBlockIds == 0);
  if (op.general_path) kernels_.scale_cap(y + first, op.scale, op.cap, (p1 - p0) * kLanes);
  float* maxima = maxima_ + row * maxima_stride_;
  for (std::int64_t i = first; i < end; i += backend::kBlockIds) {
    maxima[i / backend::kBlockIds] =
        kernels_.max_of(y + i, std::min<std::int64_t>(backend::kBlockIds, end - i));
  }
  return kernels_.all_finite(y + first, end - first);
}

}  // namespace holdfast::cpu
