// Packs a program's weights: sizes first, then one region for all, then packing by every thread.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "shared/gguf/made.h"
#include "shared/gguf/quants.h"
#include "shared/plan/scratch.h"
#include "worker/backend/cpu/cached_weights.h"
#include "worker/backend/cpu/executor.h"
#include "worker/backend/cpu/family.h"
#include "worker/backend/cpu/load.h"
#include "worker/backend/cpu/pack.h"

namespace holdfast::cpu {
namespace {

using model::Op;
using model::OpKind;
using model::WeightRef;

Error refuse(Errc code, const std::string& tensor, const std::string& cause) {
  return {code, "load cpu: tensor " + tensor + ": " + cause};
}

/// The bytes of a row, after a check of the tensor's bytes against its shape.
Result<std::size_t> checked_row_bytes(const WeightRef& w) {
  const auto row = gguf::row_bytes(w.tensor->type, static_cast<std::uint64_t>(w.cols));
  if (!row)
    return refuse(Errc::kFileInvalid, w.tensor->name, "row is not a whole number of blocks");
  const auto all = checked_mul(*row, static_cast<std::uint64_t>(w.first_row + w.rows));
  if (!all || w.tensor->data.size() < *all) {
    return refuse(Errc::kFileInvalid, w.tensor->name, "has fewer bytes than its shape needs");
  }
  return static_cast<std::size_t>(*row);
}

const std::uint8_t* bytes_of(const WeightRef& w, std::size_t row_bytes) {
  return reinterpret_cast<const std::uint8_t*>(w.tensor->data.data()) +
         static_cast<std::size_t>(w.first_row) * row_bytes;
}

/// True if forward.cpp's function of the operation leaves something out.
bool needs_general_path(const Op& op, bool causal) {
  switch (op.kind) {
    case OpKind::kAttention:
      return op.window > 0 || op.cap > 0 || op.w[0].present() || !causal;
    case OpKind::kOutAdd:
    case OpKind::kDownAdd:
      return op.to_h || op.gate_rows || op.scale != 1 || op.bias[0].present();
    case OpKind::kNormGateUp:
      return op.activation != plan::Activation::kSilu || !op.w[2].present() || op.by_input ||
             op.bias[1].present() || op.bias[2].present();
    case OpKind::kNormLogits:
      return op.scale != 1 || op.cap > 0;
    default:
      return false;
  }
}

}  // namespace

bool takes_int8(OpKind kind, std::int32_t layer) {
  constexpr std::int32_t kFineLayers = 2;
  switch (kind) {
    case OpKind::kNormLogits:
      return true;
    case OpKind::kNormGateUp:
    case OpKind::kDownAdd:
    case OpKind::kExpertGateUp:
    case OpKind::kExpertDownAdd:
      return layer >= kFineLayers;
    default:
      return false;
  }
}

/// Hands out the regions of a ScratchPlan one after the other; null where the model has none.
class ScratchCarver {
 public:
  ScratchCarver(const plan::ScratchPlan& plan, std::uint8_t* memory)
      : plan_(plan), arena_(memory) {}

  std::uint8_t* bytes(plan::ScratchBuffer buffer) {
    const std::uint64_t bytes = plan_[buffer].bytes();
    return bytes == 0 ? nullptr : arena_.bytes(static_cast<std::size_t>(bytes));
  }
  float* floats(plan::ScratchBuffer buffer) { return reinterpret_cast<float*>(bytes(buffer)); }
  std::int32_t* ints(plan::ScratchBuffer buffer) {
    return reinterpret_cast<std::int32_t*>(bytes(buffer));
  }
  void rows(plan::ScratchBuffer buffer, float*& at, std::int64_t& stride) {
    at = floats(buffer);
    stride = plan_[buffer].stride;
  }
  std::size_t used() const { return arena_.used(); }

 private:
  const plan::ScratchPlan& plan_;
  Arena arena_;
};

/// Fills a new executor. Walks the program twice: the first walk has no memory and learns the size.
class Loader {
 public:
  Loader(const model::Program& program, const backend::LoadOptions& options, CpuExecutor& to)
      : program_(program), options_(options), to_(to) {}

  Result<void> load() {
    measure();
    // Before anything is allocated, so that what a thread packs lies where it is read later.
    to_.pool_.run([&](int worker) { to_.numa_nodes_.enter(worker); });
    Arena probe(nullptr);
    HOLDFAST_CHECKED(allocate(probe));
    HOLDFAST_TRY(CachedWeights::Taken taken,
                 CachedWeights::take(probe.used(), to_.class_prefix(), options_));
    to_.weights_ = std::move(taken.region);
    to_.cached_weights_ = std::move(taken.weights);
    full_ = to_.found_packed_ = taken.full;
    to_.weights_used_ = to_.weights_.bytes();
    HOLDFAST_CHECKED(take_kv());
    HOLDFAST_CHECKED(take_scratch());
    jobs_.clear();
    to_.ops_.clear();
    Arena arena(to_.weights_.data());
    HOLDFAST_CHECKED(allocate(arena));
    if (!full_) {
      HOLDFAST_CHECKED(pack());
      if (to_.cached_weights_) to_.cached_weights_->publish(to_.weights_);
    } else if (options_.progress) {
      options_.progress(1);
    }
    return fill_rope();
  }

 private:
  struct Job {  // a matrix to pack
    PackedMatrix matrix;
    WeightRef from;
    std::size_t row_bytes;
  };

  void measure() {
    const plan::ModelShape& s = to_.shape_;
    measure_heads();
    if (s.attention_step > 0) {
      to_.state_layers_ = s.layers - plan::attention_layers(s);
      to_.state_floats_ = plan::state_floats(s);
    }
    to_.expert_norm_ = program_.details.expert_weights_norm;
    to_.expert_scale_ = static_cast<float>(program_.details.expert_weights_scale);
    to_.router_ = program_.details.router;
    to_.expert_groups_ = program_.details.expert_groups;
    to_.expert_groups_used_ = program_.details.expert_groups_used;
    to_.item_cols_ =
        plan::item_cols(std::max(to_.kernels_.item_panels, to_.prefill_kernels_.item_panels));
    to_.tile_cols_ = std::max(to_.item_cols_, to_.head_pad_);
  }

  /// Measures the kinds of heads, and the offset of each layer's keys in the pages' memory.
  void measure_heads() {
    const plan::ModelShape& s = to_.shape_;
    const plan::KvHeads kinds[] = {plan::plain_heads(s), plan::window_heads(s)};
    for (int i = 0; i < 2; ++i) {
      HeadKind& kind = to_.kinds_[i];
      kind.kv_heads = kinds[i].heads;
      kind.head_dim = kinds[i].head_dim;
      kind.pad = round_up(kind.head_dim, kLanes);
      kind.page_bytes = kind.kv_heads * head_page_bytes(to_.kv_type_, kind.pad);
      to_.head_pad_ = std::max(to_.head_pad_, kind.pad);
    }
    for (std::int64_t l = 0; l < s.layers; ++l) {
      pages_at_.push_back(s.causal ? kv_bytes_ : 0);  // an encoder's serve one layer at a time
      if (plan::is_recurrent(s, l) || !plan::has_kv_pages(s, l)) continue;
      const std::int64_t bytes = 2 * to_.kinds_[kind_of(l)].page_bytes * to_.limits_.pages;
      kv_bytes_ = s.causal ? kv_bytes_ + bytes : bytes;
    }
  }
  int kind_of(std::int64_t layer) const {
    return plan::has_window_heads(program_.shape, program_.details, layer) ? 1 : 0;
  }

  Result<void> allocate(Arena& arena) {
    for (const Op& op : program_.ops) {
      PackedOp packed;
      packed.kind = op.kind;
      packed.layer = plan::cache_layer_index(to_.shape_, op.layer);
      if (op.layer >= 0) {
        packed.heads = kind_of(op.layer);
        packed.pages_at = pages_at_[static_cast<std::size_t>(op.layer - op.pages_before)];
        packed.input_at = op.layer * round_up(to_.shape_.layer_input, kLanes);
      }
      packed.by_input = op.by_input;
      packed.value_norm = op.value_norm;
      packed.norm_kind = op.norm;
      packed.activate = activate_of(op.activation);
      packed.general_path = needs_general_path(op, to_.shape_.causal);
      packed.from_h = op.from_h;
      packed.to_h = op.to_h;
      packed.gate_rows = op.gate_rows;
      packed.row_norm = op.row_norm;
      packed.gated = op.gated;
      packed.neighbours = program_.details.family->delta == plan::DeltaNet::kNeighbours;
      packed.rope = packed.query_rope = op.rope;
      if (op.rope >= 0 && has_query_table()) packed.query_rope = 1;
      packed.window = op.window;
      packed.scale = static_cast<float>(op.scale);
      packed.cap = static_cast<float>(op.cap);
      HOLDFAST_CHECKED(allocate_op(op, packed, arena));
      choose_activation_format(packed, op.layer);
      to_.ops_.push_back(packed);
    }
    for (std::size_t i = 1; i < to_.ops_.size(); ++i) fuse_epilogue(to_.ops_[i - 1], to_.ops_[i]);
    const auto layer = [](const Op& op) { return op.layer >= 0; };
    to_.leading_ = static_cast<std::size_t>(
        std::find_if(program_.ops.begin(), program_.ops.end(), layer) - program_.ops.begin());
    to_.for_all_ = model::operations_for_all(program_);
    return allocate_embedding(arena);
  }

  /// The activation format that an operation's products take; products that take floats ignore it.
  static const ActivationFormat* activation_format_of(const PackedOp& op, const Kernels& kernels) {
    for (const PackedMatrix& m : op.matrix) {
      const ActivationFormat* activation_format =
          m.panels > 0 ? kernels.activation_format(m.format, op.int8) : nullptr;
      if (activation_format != nullptr) return activation_format;
    }
    return nullptr;
  }
  void choose_activation_format(PackedOp& op, std::int32_t layer) const {
    op.int8 = takes_int8(op.kind, layer);
    op.activation_format = {activation_format_of(op, to_.kernels_),
                            activation_format_of(op, to_.prefill_kernels_)};
    if (op.activation_format.decode_heavy == nullptr &&
        op.activation_format.prefill_heavy == nullptr)
      return;
    for (const PackedMatrix& m : op.matrix) {
      if (m.panels > 0) op.formed = round_up(m.cols, kActivationBlock);
    }
  }

  /// Fuses the encoding of f into `gate` where `down` takes f only encoded: each work item is
  /// encoded while it is in the cache. Work items are whole blocks of 32 then.
  void fuse_epilogue(PackedOp& gate, PackedOp& down) const {
    if (gate.kind != OpKind::kNormGateUp || down.kind != OpKind::kDownAdd) return;
    if (down.activation_format.decode_heavy == nullptr ||
        down.activation_format.prefill_heavy == nullptr)
      return;
    if (gate.matrix[0].panels * kLanes != down.formed) return;
    gate.fused_format = down.activation_format;
    down.input_encoded = true;
  }

  Result<void> allocate_op(const Op& op, PackedOp& out, Arena& arena) {
    switch (op.kind) {
      case OpKind::kEmbed:
      case OpKind::kGateHeads:
        return {};
      case OpKind::kLatentQuery:
      case OpKind::kLatentHeads: {
        HOLDFAST_TRY(out.norm, vector(op.w[0], op.w[0].rows, arena));
        HOLDFAST_TRY(out.matrix[0], matrix(op.w[1], op.w[1].rows / op.w[1].matrices, arena));
        return {};
      }
      case OpKind::kLatentValues: {
        HOLDFAST_TRY(out.matrix[0], matrix(op.w[0], op.w[0].rows / op.w[0].matrices, arena));
        return {};
      }
      case OpKind::kLayerInputs: {
        HOLDFAST_TRY(out.inner_norm, vector(op.w[0], op.w[0].rows, arena));
        HOLDFAST_TRY(out.matrix[0], matrix(op.w[1], to_.shape_.layer_input, arena));
        return allocate_rows(op.w[2], to_.layer_inputs_, arena);
      }
      case OpKind::kDelta:
        return allocate_delta(op, out, arena);
      case OpKind::kNormLatent:
      case OpKind::kNormDelta:
        HOLDFAST_CHECKED(allocate_norm(op, out, arena));
        for (int i = 0; i < 4; ++i) {
          if (!op.w[1 + i].present()) continue;
          HOLDFAST_TRY(out.matrix[i], matrix(op.w[1 + i], op.w[1 + i].rows, arena));
        }
        return {};
      case OpKind::kAttention:
        return optional(op.w[0], op.w[0].rows, arena, out.sinks);
      case OpKind::kEmbedScaleAdd:
        return allocate_position_embeddings(op, out, arena);
      case OpKind::kNormQkv:
      case OpKind::kQkNorm:
        return allocate_qkv(op, out, arena);
      case OpKind::kOutAdd:
      case OpKind::kDownAdd:
      case OpKind::kExpertDownAdd: {
        HOLDFAST_TRY(out.matrix[0], matrix(op.w[0], op.w[0].rows / op.w[0].matrices, arena));
        return optional(op.bias[0], op.w[0].rows / op.w[0].matrices, arena, out.bias[0]);
      }
      case OpKind::kNormAdd:
        HOLDFAST_CHECKED(optional(op.w[1], op.w[1].rows, arena, out.inner_norm));
        HOLDFAST_CHECKED(optional(op.w[2], op.w[2].rows, arena, out.factor));
        return allocate_norm(op, out, arena);
      case OpKind::kNormStore:
      case OpKind::kNorm:
        return allocate_norm(op, out, arena);
      case OpKind::kRoute:
        return allocate_router(op, out, arena);
      case OpKind::kNormGateUp:
      case OpKind::kExpertGateUp:
      case OpKind::kNormLogits:
        break;
    }
    HOLDFAST_CHECKED(allocate_norm(op, out, arena));
    for (int i = 0; i < 2; ++i) {
      const WeightRef& w = op.w[1 + i];
      if (!w.present()) continue;
      const bool both = op.kind == OpKind::kExpertGateUp && !op.w[2].present();
      const std::int64_t group = w.rows / w.matrices / (both ? 2 : 1);
      HOLDFAST_TRY(out.matrix[i], matrix(w, group, arena));
      HOLDFAST_CHECKED(optional(op.bias[1 + i], group, arena, out.bias[i]));
    }
    return {};
  }

  Result<void> optional(const WeightRef& w, std::int64_t group, Arena& arena, const float*& to,
                        double scale = 1) {
    if (!w.present()) return {};
    HOLDFAST_TRY(to, vector(w, group, arena, scale));
    return {};
  }

  Result<void> allocate_router(const Op& op, PackedOp& out, Arena& arena) {
    HOLDFAST_CHECKED(optional(op.w[2], op.w[2].rows, arena, out.gate));
    HOLDFAST_CHECKED(optional(op.w[3], op.w[3].rows, arena, out.choice));
    HOLDFAST_CHECKED(optional(op.w[4], op.w[4].rows, arena, out.inner_norm));
    HOLDFAST_CHECKED(optional(op.w[5], op.w[5].rows, arena, out.expert_scale));
    HOLDFAST_CHECKED(allocate_norm(op, out, arena, op.scale));
    HOLDFAST_TRY(out.matrix[0], matrix(op.w[1], op.w[1].rows, arena));
    return optional(op.bias[1], op.w[1].rows, arena, out.bias[0]);
  }

  Result<void> allocate_norm(const Op& op, PackedOp& out, Arena& arena, double scale = 1) {
    HOLDFAST_CHECKED(optional(op.w[0], to_.shape_.width, arena, out.norm, scale));
    return optional(op.bias[0], to_.shape_.width, arena, out.norm_bias);
  }

  Result<void> allocate_position_embeddings(const Op& op, PackedOp& out, Arena& arena) {
    if (op.w[1].present()) {
      WeightRef first = op.w[1];
      first.rows = 1;
      HOLDFAST_TRY(out.types, vector(first, first.cols, arena));
    }
    if (!op.w[0].present()) return {};
    if (to_.limits_.context > op.w[0].rows) {
      return refuse(Errc::kUsage, op.w[0].tensor->name,
                    "holds " + std::to_string(op.w[0].rows) +
                        " positions; expected a context of at most that many");
    }
    return allocate_rows(op.w[0], to_.positions_, arena);
  }

  Result<void> allocate_delta(const Op& op, PackedOp& out, Arena& arena) {
    HOLDFAST_TRY(out.conv, turned(op.w[0], arena));
    HOLDFAST_TRY(out.norm, vector(op.w[1], op.w[1].rows, arena));
    HOLDFAST_TRY(out.rate, vector(op.w[2], op.w[2].rows, arena));
    HOLDFAST_TRY(out.step_bias, vector(op.bias[2], op.bias[2].rows, arena));
    return {};
  }

  Result<void> allocate_qkv(const Op& op, PackedOp& out, Arena& arena) {
    const std::int64_t head_dim = to_.kinds_[out.heads].head_dim;
    HOLDFAST_CHECKED(allocate_norm(op, out, arena));
    for (int i = 0; i < 3; ++i) {
      if (!op.w[i + 1].present()) continue;
      HOLDFAST_TRY(out.matrix[i], matrix(op.w[i + 1], head_dim, arena));
      HOLDFAST_CHECKED(optional(op.bias[i + 1], head_dim, arena, out.bias[i]));
    }
    for (int i = 0; i < 2; ++i) {
      HOLDFAST_CHECKED(optional(op.w[4 + i], head_dim, arena, out.head_norm[i]));
    }
    return {};
  }

  Result<PackedMatrix> matrix(const WeightRef& w, std::int64_t group_rows, Arena& arena) {
    const auto format = format_of(w.tensor->type);
    if (!format) {
      const auto traits = gguf::type_traits(w.tensor->type);
      return refuse(Errc::kUnsupported, w.tensor->name,
                    "type " + std::string(traits ? traits->name : "?") + " has no kernels");
    }
    HOLDFAST_TRY(const std::size_t row, checked_row_bytes(w));
    if (group_rows <= 0 || w.rows % group_rows != 0) {
      return refuse(Errc::kFileInvalid, w.tensor->name, "rows are not whole heads");
    }
    PackedMatrix m = packed_geometry(*format, w.rows, w.cols, group_rows);
    m.data = arena.bytes(m.bytes());
    jobs_.push_back({m, w, row});
    return m;
  }

  /// Allocates a vector, times `scale`, as floats in groups of `group`, each zero-padded to 16
  /// lanes.
  Result<const float*> vector(const WeightRef& w, std::int64_t group, Arena& arena,
                              double scale = 1) {
    HOLDFAST_TRY(const std::size_t row, checked_row_bytes(w));
    const std::int64_t n = w.rows * w.cols;
    if (group <= 0 || n % group != 0) {
      return refuse(Errc::kFileInvalid, w.tensor->name, "length does not fit the model's shape");
    }
    const std::int64_t pad = round_up(group, kLanes);
    float* out = arena.floats(n / group * pad + kLanes);
    if (out == nullptr || full_) return out;
    std::vector<float> plain(static_cast<std::size_t>(n));
    HOLDFAST_TRY(const gguf::Held held, gguf::Held::of(*w.tensor));
    HOLDFAST_CHECKED(gguf::dequantize_row(w.tensor->type, bytes_of(w, row), plain.data(),
                                          static_cast<std::uint64_t>(n)));
    if (!to_.kernels_.all_finite(plain.data(), n)) {
      return refuse(Errc::kFileInvalid, w.tensor->name, "holds a NaN or infinity");
    }
    for (float& v : plain) v = static_cast<float>(static_cast<double>(v) * scale);
    for (std::int64_t g = 0; g < n / group; ++g) {
      std::memcpy(out + g * pad, plain.data() + g * group,
                  static_cast<std::size_t>(group) * sizeof(float));
    }
    return out;
  }

  /// Allocates a small matrix as floats, [cols][rows padded to 16].
  Result<const float*> turned(const WeightRef& w, Arena& arena) {
    HOLDFAST_TRY(const std::size_t row, checked_row_bytes(w));
    const std::int64_t stride = round_up(w.rows, kLanes);
    float* out = arena.floats(w.cols * stride + kLanes);
    if (out == nullptr || full_) return out;
    std::vector<float> plain(static_cast<std::size_t>(w.rows * w.cols));
    HOLDFAST_TRY(const gguf::Held held, gguf::Held::of(*w.tensor));
    for (std::int64_t r = 0; r < w.rows; ++r) {
      HOLDFAST_CHECKED(
          gguf::dequantize_row(w.tensor->type, bytes_of(w, row) + static_cast<std::size_t>(r) * row,
                               plain.data() + r * w.cols, static_cast<std::uint64_t>(w.cols)));
    }
    if (!to_.kernels_.all_finite(plain.data(), w.rows * w.cols)) {
      return refuse(Errc::kFileInvalid, w.tensor->name, "holds a NaN or infinity");
    }
    for (std::int64_t r = 0; r < w.rows; ++r) {
      for (std::int64_t c = 0; c < w.cols; ++c) {
        out[c * stride + r] = plain[static_cast<std::size_t>(r * w.cols + c)];
      }
    }
    return out;
  }

  /// Allocates the embedding. A tied one is read from the output's panels, so its weights exist
  /// once.
  Result<void> allocate_embedding(Arena& arena) {
    const Op& first = program_.ops.front();
    const Op& last = program_.ops.back();
    if (first.kind != OpKind::kEmbed || last.kind != OpKind::kNormLogits) {
      return Error{Errc::kUnsupported,
                   "load cpu: a program starts with kEmbed and ends with "
                   "kNormLogits; this one does not"};
    }
    const WeightRef& w = first.w[0];
    if (last.w[1].tensor == w.tensor) {
      to_.embedding_.type = w.tensor->type;
      HOLDFAST_TRY(to_.embedding_.row_bytes, checked_row_bytes(w));
      to_.embedding_.packed = &to_.ops_.back().matrix[0];
      return {};
    }
    return allocate_rows(w, to_.embedding_, arena);
  }

  /// Copies rows as they are in the file, to be looked up one by one.
  Result<void> allocate_rows(const WeightRef& w, Embedding& e, Arena& arena) {
    e.type = w.tensor->type;
    HOLDFAST_TRY(e.row_bytes, checked_row_bytes(w));
    std::uint8_t* rows = arena.bytes(e.row_bytes * static_cast<std::size_t>(w.rows));
    e.rows = rows;
    if (rows == nullptr || full_) return {};
    HOLDFAST_TRY(const gguf::Held held, gguf::Held::of(*w.tensor));
    std::memcpy(rows, bytes_of(w, e.row_bytes), e.row_bytes * static_cast<std::size_t>(w.rows));
    std::atomic<bool> bad{false};
    to_.pool_.run([&](int worker) {
      std::vector<float> row(static_cast<std::size_t>(w.cols));
      const Share share = share_of(w.rows, worker, to_.pool_.size());
      for (std::int64_t r = share.first; r < share.last; ++r) {
        const auto done =
            gguf::dequantize_row(e.type, rows + static_cast<std::size_t>(r) * e.row_bytes,
                                 row.data(), static_cast<std::uint64_t>(w.cols));
        if (!done.has_value() || !to_.kernels_.all_finite(row.data(), w.cols)) bad = true;
      }
    });
    if (!bad) return {};
    return refuse(Errc::kFileInvalid, w.tensor->name,
                  "holds a NaN or infinity, or a type that cannot be read");
  }

  Result<void> pack() {
    std::size_t all = 0, done = 0;
    for (const Job& job : jobs_) all += job.matrix.bytes();
    for (const Job& job : jobs_) {
      HOLDFAST_TRY(const gguf::Held held, gguf::Held::of(*job.from.tensor));
      std::atomic<std::int64_t> bad{-1};
      to_.pool_.run([&](int worker) {
        const Share share = share_of(job.matrix.panels, worker, to_.pool_.size());
        const std::int64_t row =
            pack_panels(job.matrix, job.from.tensor->type, bytes_of(job.from, job.row_bytes),
                        job.row_bytes, share.first, share.last);
        if (row >= 0) bad = row;
      });
      if (bad >= 0) {
        return refuse(Errc::kFileInvalid, job.from.tensor->name,
                      "holds a NaN or infinity in row " + std::to_string(bad.load()));
      }
      done += job.matrix.bytes();
      if (options_.progress) {
        options_.progress(static_cast<double>(done) / static_cast<double>(all));
      }
    }
    return {};
  }

  Result<void> take_kv() {
    HOLDFAST_TRY(to_.kv_, Region::take(static_cast<std::size_t>(kv_bytes_), "KV"));
    to_.numa_nodes_.spread(to_.kv_.data(), to_.kv_.bytes());
    to_.kv_.populate();
    to_.kv_used_ = to_.kv_.bytes();
    return {};
  }

  Result<void> take_states() {
    const backend::Limits& l = to_.limits_;
    const std::int32_t states = l.states > 0 ? l.states : l.batch_segments;
    const auto bytes = static_cast<std::size_t>(plan::state_bytes(to_.shape_, states));
    HOLDFAST_TRY(to_.states_, Region::take(bytes, "states"));
    to_.numa_nodes_.spread(to_.states_.data(), to_.states_.bytes());
    to_.states_.populate();
    to_.scratch_used_ += to_.states_.bytes();
    to_.state_table_.resize(static_cast<std::size_t>(states));
    return {};
  }

  plan::ScratchPlan scratch_plan() const {
    const backend::Limits& l = to_.limits_;
    return {to_.shape_,
            {l.context, static_cast<std::uint64_t>(l.batch_tokens),
             static_cast<std::uint64_t>(std::max(l.logit_rows, 1)), to_.pool_.size()}};
  }

  /// Carves the buffers of the plan: those of the batch, then each thread's.
  void carve_scratch(const plan::ScratchPlan& plan) {
    ScratchCarver c(plan, to_.scratch_.data());
    using B = plan::ScratchBuffer;
    c.rows(B::kResidual, to_.x_, to_.x_stride_);
    c.rows(B::kNormed, to_.h_, to_.x_stride_);
    c.rows(B::kQuery, to_.q_, to_.q_stride_);
    c.rows(B::kAttentionOut, to_.a_, to_.a_stride_);
    c.rows(B::kFeedForward, to_.f_, to_.f_stride_);
    to_.blocks_ = c.bytes(B::kEncoded);
    c.rows(B::kLogitInputs, to_.logit_inputs_, to_.x_stride_);
    c.rows(B::kLogits, to_.logits_, to_.logit_stride_);
    c.rows(B::kLogitMaxima, to_.maxima_, to_.maxima_stride_);
    for (WorkerScratch& w : to_.workers_) carve_worker(c, w);
    c.rows(B::kMixerInput, to_.m_, to_.m_stride_);
    to_.z_ = c.floats(B::kGate);
    c.rows(B::kHeadInput, to_.n_, to_.n_stride_);
    to_.n_blocks_ = c.bytes(B::kHeadEncoded);
    to_.gates_ = c.floats(B::kDeltaGates);
    to_.rope_tables_[0] = {to_.shape_.rope_dims / 2, c.floats(B::kCosines), c.floats(B::kSines)};
    to_.rope_tables_[1] = {plan::second_rope_dims(to_.shape_) / 2, c.floats(B::kSecondCosines),
                           c.floats(B::kSecondSines)};
    c.rows(B::kLayerInput, to_.p_, to_.p_stride_);
    to_.s_ = c.floats(B::kDenseOut);
    c.rows(B::kKey, to_.k_, to_.k_stride_);
    carve_routing(c);
    CHECK(c.used() == plan.bytes());
    CHECK(to_.s_ != nullptr || !has_kind(OpKind::kNormStore));
  }
  static void carve_worker(ScratchCarver& c, WorkerScratch& w) {
    using B = plan::ScratchBuffer;
    w.unpack = c.floats(B::kUnpacked);
    w.tile = c.floats(B::kTile);
    w.item_rows = c.floats(B::kItemRows);
    w.rows = c.floats(B::kPrivateRows);
    w.blocks = c.bytes(B::kPrivateEncoded);
    w.attention = c.floats(B::kAttentionWork);
    w.row = c.floats(B::kTokenRow);
    w.latent = c.floats(B::kLatentRow);
    w.inputs = c.floats(B::kTokenInputs);
    w.delta = c.floats(B::kDeltaWork);
  }
  void carve_routing(ScratchCarver& c) {
    using B = plan::ScratchBuffer;
    Routing& r = to_.routing_;
    c.rows(B::kExpertFeedForward, to_.e_, to_.e_stride_);
    r.rows = c.floats(B::kExpertInput);
    c.rows(B::kRouterLogits, r.logits, r.stride);
    r.weight = c.floats(B::kExpertWeights);
    r.slot_weight = c.floats(B::kSlotWeights);
    r.gate = c.floats(B::kSharedExpertGate);
    r.expert = c.ints(B::kExpertIds);
    r.slot_row = c.ints(B::kSlotRows);
    r.group = c.ints(B::kExpertGroups);
    r.first = c.ints(B::kFirstSlots);
  }

  Result<void> take_scratch() {
    to_.workers_.resize(static_cast<std::size_t>(to_.pool_.size()));
    const plan::ScratchPlan plan = scratch_plan();
    HOLDFAST_TRY(to_.scratch_, Region::take(static_cast<std::size_t>(plan.bytes()), "scratch"));
    to_.numa_nodes_.spread(to_.scratch_.data(), to_.scratch_.bytes());
    to_.scratch_.populate();
    to_.scratch_used_ = to_.scratch_.bytes();
    carve_scratch(plan);
    const auto batch = static_cast<std::size_t>(to_.limits_.batch_tokens);
    to_.tokens_.reserve(batch);
    to_.output_tokens_.reserve(batch);
    for (HeadKind& kind : to_.kinds_) kind.runs.reserve(batch);
    to_.segment_first_.reserve(static_cast<std::size_t>(to_.limits_.batch_segments));
    to_.halves_.reserve(static_cast<std::size_t>(to_.limits_.batch_segments));
    to_.logit_tokens_.reserve(static_cast<std::size_t>(std::max(to_.limits_.logit_rows, 1)));
    to_.tickets_ = std::vector<std::atomic<std::int64_t>>(program_.ops.size() * kRowGroupsMost);
    return to_.state_layers_ > 0 ? take_states() : Result<void>{};
  }

  Result<void> fill_rope() {
    for (std::size_t i = 0; i < program_.ropes.size(); ++i) {
      const model::Rope& rope = program_.ropes[i];
      const bool far = !rope.inv_freq_long.empty() && to_.limits_.context > rope.long_from;
      const std::vector<double>& frequency = far ? rope.inv_freq_long : rope.inv_freq;
      fill_table(to_.rope_tables_[i], frequency, [&](std::int64_t) { return rope.magnitude; });
      if (!has_query_table()) continue;
      fill_table(to_.rope_tables_[1], frequency,
                 [&](std::int64_t p) { return rope.magnitude * rope.of_query(p); });
    }
    return {};
  }
  bool has_kind(OpKind kind) const {
    return std::any_of(program_.ops.begin(), program_.ops.end(),
                       [&](const Op& op) { return op.kind == kind; });
  }
  /// True if the only rotation has another table for queries.
  bool has_query_table() const {
    return program_.ropes.size() == 1 && !program_.ropes[0].query_steps.empty();
  }

  template <class Magnitude>
  void fill_table(const RopeTable& table, const std::vector<double>& frequency,
                  Magnitude magnitude_of) {
    to_.pool_.run([&](int worker) {
      const Share share = share_of(to_.limits_.context, worker, to_.pool_.size());
      for (std::int64_t p = share.first; p < share.last; ++p) {
        const double magnitude = magnitude_of(p);
        for (std::int64_t i = 0; i < table.pairs; ++i) {
          const double angle = static_cast<double>(p) * frequency[static_cast<std::size_t>(i)];
          table.cos[p * table.pairs + i] = static_cast<float>(std::cos(angle) * magnitude);
          table.sin[p * table.pairs + i] = static_cast<float>(std::sin(angle) * magnitude);
        }
      }
    });
  }

  const model::Program& program_;
  const backend::LoadOptions& options_;
  CpuExecutor& to_;
  std::vector<Job> jobs_;
  std::vector<std::int64_t> pages_at_;  // offset of each layer's keys
  std::int64_t kv_bytes_ = 0;
  bool full_ = false;  // the weights' memory is filled already
};

namespace {

Result<void> check_limits(const model::Program& program, const backend::LoadOptions& options) {
  const backend::Limits& l = options.limits;
  const auto refuse_limit = [](const std::string& what) {
    return Error{Errc::kUsage, "load cpu: " + what};
  };
  if (l.context <= 0 || l.pages <= 0 || l.batch_tokens <= 0 || l.batch_segments <= 0) {
    return refuse_limit("context, pages, batch_tokens and batch_segments must be positive");
  }
  if (options.threads < 1) return refuse_limit("threads must be at least 1");
  if (!kv_type_of(l.kv_type)) {
    return Error{Errc::kUnsupported,
                 "load cpu: kv type " + l.kv_type + ": expected f32, f16, bf16, int8 or fp8"};
  }
  const plan::ModelShape& s = program.shape;
  bool fits = !program.ops.empty() && s.head_dim > 0 && s.head_dim <= kHeadDimMost &&
              s.kv_heads > 0 && s.heads % s.kv_heads == 0 && s.rope_dims <= s.head_dim &&
              program.ropes.size() <= 2;
  for (std::size_t i = 0; i < program.ropes.size(); ++i) {
    const bool windowed = i == 1 && s.window_rope_dims > 0;
    fits = fits && static_cast<std::int64_t>(program.ropes[i].inv_freq.size()) ==
                       (windowed ? s.window_rope_dims : s.rope_dims) / 2;
  }
  fits =
      fits && s.window_head_dim <= kHeadDimMost && s.window_rope_dims <= plan::window_head_dim(s);
  if (!fits) {
    return Error{Errc::kUnsupported, "load cpu: the program's heads or rotary pairs do not fit"};
  }
  return {};
}

}  // namespace

CpuExecutor::CpuExecutor(const model::Program& program, const backend::LoadOptions& options,
                         const Kernels& kernels)
    : kernels_(kernels),
      prefill_kernels_(kernels.prefill_heavy != nullptr ? *kernels.prefill_heavy : kernels),
      shape_(program.shape),
      limits_(options.limits),
      pool_(options.threads),
      numa_nodes_(options.threads),
      kv_type_(*kv_type_of(options.limits.kv_type)) {}

namespace {
WeightKinds kinds_of(const model::Program& program) {
  WeightKinds kinds;
  model::for_products(program, [&](const Op&, const WeightRef& w) {
    const auto format = format_of(w.tensor->type);
    kinds.quantised |= format.has_value() && layout_of(*format).has_d;
    kinds.bf16 |= format == Format::kBF16;
  });
  return kinds;
}
}  // namespace

Result<std::unique_ptr<CpuExecutor>> CpuExecutor::load(const model::Program& program,
                                                       const backend::LoadOptions& options) {
  HOLDFAST_CHECKED(check_limits(program, options));
  HOLDFAST_TRY(const Kernels* kernels, select_family(options.kernels, kinds_of(program)));
  std::unique_ptr<CpuExecutor> executor(new CpuExecutor(program, options, *kernels));
  HOLDFAST_CHECKED(Loader(program, options, *executor).load());
  return executor;
}

Result<std::unique_ptr<backend::Executor>> load(const model::Program& program,
                                                const backend::LoadOptions& options) {
  HOLDFAST_TRY(auto executor, CpuExecutor::load(program, options));
  return std::unique_ptr<backend::Executor>(std::move(executor));
}

}  // namespace holdfast::cpu
