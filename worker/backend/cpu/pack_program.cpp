#include "worker/backend/cpu/pack_program.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "shared/gguf/made.h"
#include "shared/gguf/quants.h"
#include "worker/backend/cpu/family.h"
#include "worker/backend/cpu/load.h"
#include "worker/weights/pack.h"

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

ProgramPacker::ProgramPacker(const model::Program& program, const backend::LoadOptions& options,
                             std::vector<std::int64_t> pages_at, ForwardContext& to)
    : program_(program), options_(options), pages_at_(std::move(pages_at)), to_(to) {}

Result<std::size_t> ProgramPacker::measure() {
  Arena probe(nullptr);
  HOLDFAST_CHECKED(allocate(probe));
  return probe.used();
}

Result<void> ProgramPacker::fill(std::uint8_t* memory, bool full) {
  full_ = full;
  Arena arena(memory);
  HOLDFAST_CHECKED(allocate(arena));
  if (!full_) return pack_matrices();
  if (options_.progress) options_.progress(1);
  return {};
}

Result<void> ProgramPacker::allocate(Arena& arena) {
  jobs_.clear();
  PackedProgram& to = to_.program;
  to.ops.clear();
  for (const Op& op : program_.ops) {
    PackedOp packed = plain_op(op);
    packed.heads = heads_of(op);
    HOLDFAST_CHECKED(allocate_op(op, packed, arena));
    choose_activation_format(packed, op.layer);
    to.ops.push_back(packed);
  }
  for (std::size_t i = 1; i < to.ops.size(); ++i) fuse_epilogue(to.ops[i - 1], to.ops[i]);
  const auto layer = [](const Op& op) { return op.layer >= 0; };
  to.leading = static_cast<std::size_t>(
      std::find_if(program_.ops.begin(), program_.ops.end(), layer) - program_.ops.begin());
  to.for_all = model::operations_for_all(program_);
  const plan::Details& d = program_.details;
  to.routing = {d.router, d.expert_weights_norm, static_cast<float>(d.expert_weights_scale),
                d.expert_groups, d.expert_groups_used};
  return allocate_embedding(arena);
}

/// An operation without its weights.
PackedOp ProgramPacker::plain_op(const Op& op) const {
  PackedOp packed;
  packed.kind = op.kind;
  packed.layer = plan::cache_layer_index(to_.shape, op.layer);
  if (op.layer >= 0) packed.input_at = op.layer * round_up(to_.shape.layer_input, kLanes);
  packed.by_input = op.by_input;
  packed.norm_kind = op.norm;
  packed.activate = activate_of(op.activation);
  packed.general_path = needs_general_path(op, to_.shape.causal);
  packed.from_h = op.from_h;
  packed.to_h = op.to_h;
  packed.gate_rows = op.gate_rows;
  packed.delta.neighbours = program_.details.family->delta == plan::DeltaNet::kNeighbours;
  packed.scale = static_cast<float>(op.scale);
  packed.cap = static_cast<float>(op.cap);
  return packed;
}

HeadParts ProgramPacker::heads_of(const Op& op) const {
  HeadParts heads;
  if (op.layer >= 0) {
    heads.kind = head_kind_of(program_, op.layer);
    heads.pages_at = pages_at_[static_cast<std::size_t>(op.layer - op.pages_before)];
  }
  heads.value_norm = op.value_norm;
  heads.row_norm = op.row_norm;
  heads.gated = op.gated;
  heads.rope = heads.query_rope = op.rope;
  if (op.rope >= 0 && has_query_table(program_)) heads.query_rope = 1;
  heads.window = op.window;
  return heads;
}

/// The activation format that an operation's products take; products that take floats ignore it.
const ActivationFormat* ProgramPacker::activation_format_of(const PackedOp& op,
                                                            const Kernels& kernels) {
  for (const PackedMatrix& m : op.matrix) {
    const ActivationFormat* activation_format =
        m.panels > 0 ? kernels.activation_format(m.format, op.encoding.int8) : nullptr;
    if (activation_format != nullptr) return activation_format;
  }
  return nullptr;
}
void ProgramPacker::choose_activation_format(PackedOp& op, std::int32_t layer) const {
  op.encoding.int8 = takes_int8(op.kind, layer);
  op.encoding.formats = {activation_format_of(op, to_.kernels),
                         activation_format_of(op, to_.prefill_kernels)};
  if (op.encoding.formats.decode_heavy == nullptr && op.encoding.formats.prefill_heavy == nullptr)
    return;
  for (const PackedMatrix& m : op.matrix) {
    if (m.panels > 0) op.encoding.floats = round_up(m.cols, kActivationBlock);
  }
}

/// Fuses the encoding of f into `gate` where `down` takes f only encoded: each work item is
/// encoded while it is in the cache. Work items are whole blocks of 32 then.
void ProgramPacker::fuse_epilogue(PackedOp& gate, PackedOp& down) const {
  if (gate.kind != OpKind::kNormGateUp || down.kind != OpKind::kDownAdd) return;
  if (down.encoding.formats.decode_heavy == nullptr ||
      down.encoding.formats.prefill_heavy == nullptr)
    return;
  if (gate.matrix[0].panels * kLanes != down.encoding.floats) return;
  gate.encoding.fused = down.encoding.formats;
  down.encoding.done = true;
}

Result<void> ProgramPacker::allocate_op(const Op& op, PackedOp& out, Arena& arena) {
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
      HOLDFAST_TRY(out.matrix[0], matrix(op.w[1], to_.shape.layer_input, arena));
      return allocate_rows(op.w[2], to_.program.layer_inputs, arena);
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
      return optional(op.w[0], op.w[0].rows, arena, out.heads.sinks);
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

Result<void> ProgramPacker::optional(const WeightRef& w, std::int64_t group, Arena& arena,
                                     const float*& to, double scale) {
  if (!w.present()) return {};
  HOLDFAST_TRY(to, vector(w, group, arena, scale));
  return {};
}

Result<void> ProgramPacker::allocate_router(const Op& op, PackedOp& out, Arena& arena) {
  HOLDFAST_CHECKED(optional(op.w[2], op.w[2].rows, arena, out.router.gate));
  HOLDFAST_CHECKED(optional(op.w[3], op.w[3].rows, arena, out.router.choice));
  HOLDFAST_CHECKED(optional(op.w[4], op.w[4].rows, arena, out.inner_norm));
  HOLDFAST_CHECKED(optional(op.w[5], op.w[5].rows, arena, out.router.expert_scale));
  HOLDFAST_CHECKED(allocate_norm(op, out, arena, op.scale));
  HOLDFAST_TRY(out.matrix[0], matrix(op.w[1], op.w[1].rows, arena));
  return optional(op.bias[1], op.w[1].rows, arena, out.bias[0]);
}

Result<void> ProgramPacker::allocate_norm(const Op& op, PackedOp& out, Arena& arena, double scale) {
  HOLDFAST_CHECKED(optional(op.w[0], to_.shape.width, arena, out.norm, scale));
  return optional(op.bias[0], to_.shape.width, arena, out.norm_bias);
}

Result<void> ProgramPacker::allocate_position_embeddings(const Op& op, PackedOp& out,
                                                         Arena& arena) {
  if (op.w[1].present()) {
    WeightRef first = op.w[1];
    first.rows = 1;
    HOLDFAST_TRY(out.types, vector(first, first.cols, arena));
  }
  if (!op.w[0].present()) return {};
  if (to_.limits.context > op.w[0].rows) {
    return refuse(Errc::kUsage, op.w[0].tensor->name,
                  "holds " + std::to_string(op.w[0].rows) +
                      " positions; expected a context of at most that many");
  }
  return allocate_rows(op.w[0], to_.program.positions, arena);
}

Result<void> ProgramPacker::allocate_delta(const Op& op, PackedOp& out, Arena& arena) {
  HOLDFAST_TRY(out.delta.conv, turned(op.w[0], arena));
  HOLDFAST_TRY(out.norm, vector(op.w[1], op.w[1].rows, arena));
  HOLDFAST_TRY(out.delta.rate, vector(op.w[2], op.w[2].rows, arena));
  HOLDFAST_TRY(out.delta.step_bias, vector(op.bias[2], op.bias[2].rows, arena));
  return {};
}

Result<void> ProgramPacker::allocate_qkv(const Op& op, PackedOp& out, Arena& arena) {
  const std::int64_t head_dim = to_.head_kinds[out.heads.kind].head_dim;
  HOLDFAST_CHECKED(allocate_norm(op, out, arena));
  for (int i = 0; i < 3; ++i) {
    if (!op.w[i + 1].present()) continue;
    HOLDFAST_TRY(out.matrix[i], matrix(op.w[i + 1], head_dim, arena));
    HOLDFAST_CHECKED(optional(op.bias[i + 1], head_dim, arena, out.bias[i]));
  }
  for (int i = 0; i < 2; ++i) {
    HOLDFAST_CHECKED(optional(op.w[4 + i], head_dim, arena, out.heads.norm[i]));
  }
  return {};
}

Result<PackedMatrix> ProgramPacker::matrix(const WeightRef& w, std::int64_t group_rows,
                                           Arena& arena) {
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
Result<const float*> ProgramPacker::vector(const WeightRef& w, std::int64_t group, Arena& arena,
                                           double scale) {
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
  if (!to_.kernels.all_finite(plain.data(), n)) {
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
Result<const float*> ProgramPacker::turned(const WeightRef& w, Arena& arena) {
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
  if (!to_.kernels.all_finite(plain.data(), w.rows * w.cols)) {
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
Result<void> ProgramPacker::allocate_embedding(Arena& arena) {
  const Op& first = program_.ops.front();
  const Op& last = program_.ops.back();
  if (first.kind != OpKind::kEmbed || last.kind != OpKind::kNormLogits) {
    return Error{Errc::kUnsupported,
                 "load cpu: a program starts with kEmbed and ends with "
                 "kNormLogits; this one does not"};
  }
  const WeightRef& w = first.w[0];
  if (last.w[1].tensor == w.tensor) {
    to_.program.embedding.type = w.tensor->type;
    HOLDFAST_TRY(to_.program.embedding.row_bytes, checked_row_bytes(w));
    to_.program.embedding.packed = &to_.program.ops.back().matrix[0];
    return {};
  }
  return allocate_rows(w, to_.program.embedding, arena);
}

/// Copies rows as they are in the file, to be looked up one by one.
Result<void> ProgramPacker::allocate_rows(const WeightRef& w, EmbeddingTable& e, Arena& arena) {
  e.type = w.tensor->type;
  HOLDFAST_TRY(e.row_bytes, checked_row_bytes(w));
  std::uint8_t* rows = arena.bytes(e.row_bytes * static_cast<std::size_t>(w.rows));
  e.rows = rows;
  if (rows == nullptr || full_) return {};
  HOLDFAST_TRY(const gguf::Held held, gguf::Held::of(*w.tensor));
  std::memcpy(rows, bytes_of(w, e.row_bytes), e.row_bytes * static_cast<std::size_t>(w.rows));
  std::atomic<bool> bad{false};
  to_.pool.run([&](int worker) {
    std::vector<float> row(static_cast<std::size_t>(w.cols));
    const Share share = share_of(w.rows, worker, to_.pool.size());
    for (std::int64_t r = share.first; r < share.last; ++r) {
      const auto done =
          gguf::dequantize_row(e.type, rows + static_cast<std::size_t>(r) * e.row_bytes, row.data(),
                               static_cast<std::uint64_t>(w.cols));
      if (!done.has_value() || !to_.kernels.all_finite(row.data(), w.cols)) bad = true;
    }
  });
  if (!bad) return {};
  return refuse(Errc::kFileInvalid, w.tensor->name,
                "holds a NaN or infinity, or a type that cannot be read");
}

/// Packs the matrices. Tensors that are made while they are held come first, the largest ones
/// before all: they then take memory that the weights after them will fill, and the load stays
/// within what is reserved for it.
Result<void> ProgramPacker::pack_matrices() {
  std::stable_sort(jobs_.begin(), jobs_.end(), [](const Job& a, const Job& b) {
    return gguf::made_bytes(*a.from.tensor) > gguf::made_bytes(*b.from.tensor);
  });
  std::size_t all = 0, done = 0;
  for (const Job& job : jobs_) all += job.matrix.bytes();
  gguf::Held held;
  const gguf::TensorInfo* held_tensor = nullptr;  // of several jobs in a row
  for (const Job& job : jobs_) {
    if (held_tensor != job.from.tensor) {
      held = gguf::Held();  // releases the one before
      HOLDFAST_TRY(held, gguf::Held::of(*job.from.tensor));
      held_tensor = job.from.tensor;
    }
    std::atomic<std::int64_t> bad{-1};
    to_.pool.run([&](int worker) {
      const Share share = share_of(job.matrix.panels, worker, to_.pool.size());
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

}  // namespace holdfast::cpu
