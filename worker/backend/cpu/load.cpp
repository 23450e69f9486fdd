// Program to packed weights: sizes first, then one region for all, then packing by every thread.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "shared/gguf/quants.h"
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

/// The tensor's bytes, checked against its shape.
Result<std::size_t> checked_row_bytes(const WeightRef& w) {
  const auto row = gguf::row_bytes(w.tensor->type, static_cast<std::uint64_t>(w.cols));
  if (!row)
    return refuse(Errc::kFileInvalid, w.tensor->name, "row is not a whole number of blocks");
  const auto all = checked_mul(*row, static_cast<std::uint64_t>(w.rows));
  if (!all || w.tensor->data.size() < *all) {
    return refuse(Errc::kFileInvalid, w.tensor->name, "has fewer bytes than its shape needs");
  }
  return static_cast<std::size_t>(*row);
}

const std::uint8_t* bytes_of(const WeightRef& w) {
  return reinterpret_cast<const std::uint8_t*>(w.tensor->data.data());
}

}  // namespace

/// Fills a fresh executor. Two passes over the program: the first with no memory learns the size.
class Loader {
 public:
  Loader(const model::Program& program, const backend::LoadOptions& options, CpuExecutor& to)
      : program_(program), options_(options), to_(to) {}

  Result<void> load() {
    measure();
    Carver probe(nullptr);
    HF_CHECKED(place(probe));
    HF_TRY(to_.weights_, Region::take(probe.used(), "weights"));
    to_.weights_used_ = to_.weights_.bytes();
    HF_CHECKED(take_kv());
    HF_CHECKED(take_scratch());
    jobs_.clear();
    to_.ops_.clear();
    Carver carver(to_.weights_.data());
    HF_CHECKED(place(carver));
    HF_CHECKED(pack());
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
    to_.head_pad_ = round_up(s.head_dim, kLanes);
    // A little more than needed, so that rows of a power of two do not fall into one cache set.
    to_.x_stride_ = round_up(s.width, kSpan) + kLanes;
    to_.a_stride_ = round_up(s.heads * s.head_dim, kSpan) + kLanes;
    to_.f_stride_ = round_up(s.ff, kSpan) + kLanes;
    to_.q_stride_ = s.heads * to_.head_pad_ + kLanes;
    to_.logit_stride_ = round_up(s.vocab, kLanes);
    to_.tile_cols_ = std::max<std::int64_t>(kTilePanels * kLanes, to_.head_pad_);
    to_.pairs_ = static_cast<std::int64_t>(program_.inv_freq.size());
  }

  Result<void> place(Carver& carver) {
    for (const Op& op : program_.ops) {
      PackedOp packed;
      packed.kind = op.kind;
      packed.layer = op.layer;
      HF_CHECKED(place_op(op, packed, carver));
      to_.ops_.push_back(packed);
    }
    return place_embedding(carver);
  }

  Result<void> place_op(const Op& op, PackedOp& out, Carver& carver) {
    switch (op.kind) {
      case OpKind::kEmbed:
      case OpKind::kAttention:
        return {};
      case OpKind::kNormQkv:
        return place_qkv(op, out, carver);
      case OpKind::kOutAdd:
      case OpKind::kDownAdd:
        break;
      case OpKind::kNormGateUp:
      case OpKind::kNormLogits: {
        HF_TRY(out.norm, vector(op.w[0], to_.shape_.width, carver));
        HF_TRY(out.matrix[0], matrix(op.w[1], op.w[1].rows, carver));
        if (op.kind == OpKind::kNormLogits) return {};
        HF_TRY(out.matrix[1], matrix(op.w[2], op.w[2].rows, carver));
        return {};
      }
    }
    HF_TRY(out.matrix[0], matrix(op.w[0], op.w[0].rows, carver));
    return {};
  }

  Result<void> place_qkv(const Op& op, PackedOp& out, Carver& carver) {
    const plan::ModelShape& s = to_.shape_;
    HF_TRY(out.norm, vector(op.w[0], s.width, carver));
    for (int i = 0; i < 3; ++i) {
      HF_TRY(out.matrix[i], matrix(op.w[i + 1], s.head_dim, carver));
      if (!op.bias[i + 1].present()) continue;
      HF_TRY(out.bias[i], vector(op.bias[i + 1], s.head_dim, carver));
    }
    for (int i = 0; i < 2; ++i) {
      if (!op.w[4 + i].present()) continue;
      HF_TRY(out.head_norm[i], vector(op.w[4 + i], s.head_dim, carver));
    }
    return {};
  }

  Result<PackedMatrix> matrix(const WeightRef& w, std::int64_t group_rows, Carver& carver) {
    const auto format = format_of(w.tensor->type);
    if (!format) {
      const auto traits = gguf::type_traits(w.tensor->type);
      return refuse(Errc::kUnsupported, w.tensor->name,
                    "type " + std::string(traits ? traits->name : "?") + " has no kernels");
    }
    HF_TRY(const std::size_t row, checked_row_bytes(w));
    if (group_rows <= 0 || w.rows % group_rows != 0) {
      return refuse(Errc::kFileInvalid, w.tensor->name, "rows are not whole heads");
    }
    PackedMatrix m = packed_geometry(*format, w.rows, w.cols, group_rows);
    m.data = carver.bytes(m.bytes());
    jobs_.push_back({m, w, row});
    return m;
  }

  /// A vector as floats in groups of `group`, each zero-padded to 16 lanes.
  Result<const float*> vector(const WeightRef& w, std::int64_t group, Carver& carver) {
    HF_CHECKED(checked_row_bytes(w));
    const std::int64_t n = w.rows * w.cols;
    if (group <= 0 || n % group != 0) {
      return refuse(Errc::kFileInvalid, w.tensor->name, "length does not fit the model's shape");
    }
    const std::int64_t pad = round_up(group, kLanes);
    float* out = carver.floats(n / group * pad + kLanes);
    if (out == nullptr) return out;
    std::vector<float> plain(static_cast<std::size_t>(n));
    HF_CHECKED(gguf::dequantize_row(w.tensor->type, w.tensor->data.data(), plain.data(),
                                    static_cast<std::uint64_t>(n)));
    if (!to_.kernels_.all_finite(plain.data(), n)) {
      return refuse(Errc::kFileInvalid, w.tensor->name, "holds a NaN or infinity");
    }
    for (std::int64_t g = 0; g < n / group; ++g) {
      std::memcpy(out + g * pad, plain.data() + g * group,
                  static_cast<std::size_t>(group) * sizeof(float));
    }
    return out;
  }

  /// A tied embedding is read from the output's panels, so its weights exist once.
  Result<void> place_embedding(Carver& carver) {
    const Op& first = program_.ops.front();
    const Op& last = program_.ops.back();
    if (first.kind != OpKind::kEmbed || last.kind != OpKind::kNormLogits) {
      return Error{Errc::kUnsupported,
                   "load cpu: a program starts with kEmbed and ends with "
                   "kNormLogits; this one does not"};
    }
    const WeightRef& w = first.w[0];
    Embedding& e = to_.embedding_;
    e.type = w.tensor->type;
    HF_TRY(e.row_bytes, checked_row_bytes(w));
    if (last.w[1].tensor == w.tensor) {
      e.packed = &to_.ops_.back().matrix[0];
      return {};
    }
    std::uint8_t* rows = carver.bytes(e.row_bytes * static_cast<std::size_t>(w.rows));
    e.rows = rows;
    if (rows == nullptr) return {};
    return copy_embedding(w, rows);
  }

  Result<void> copy_embedding(const WeightRef& w, std::uint8_t* rows) {
    const Embedding& e = to_.embedding_;
    std::memcpy(rows, bytes_of(w), e.row_bytes * static_cast<std::size_t>(w.rows));
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
      std::atomic<std::int64_t> bad{-1};
      to_.pool_.run([&](int worker) {
        const Share share = share_of(job.matrix.panels, worker, to_.pool_.size());
        const std::int64_t row =
            pack_panels(job.matrix, bytes_of(job.from), job.row_bytes, share.first, share.last);
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
    const backend::Limits& l = to_.limits_;
    const std::int64_t element = to_.half_ ? 2 : 4;
    to_.page_bytes_ = to_.shape_.kv_heads * to_.head_pad_ * kPageTokens * element;
    to_.layer_bytes_ = to_.page_bytes_ * l.pages;
    const std::int64_t layers = to_.shape_.layers;
    HF_TRY(to_.kv_, Region::take(static_cast<std::size_t>(2 * layers * to_.layer_bytes_), "KV"));
    to_.kv_.populate();
    to_.kv_used_ = to_.kv_.bytes();
    return {};
  }

  void carve_scratch(Carver& c) {
    const backend::Limits& l = to_.limits_;
    const std::int64_t batch = l.batch_tokens;
    const std::int64_t logit_rows = std::max(l.logit_rows, 1);
    to_.x_ = c.floats(batch * to_.x_stride_);
    to_.h_ = c.floats(std::max(batch, logit_rows) * to_.x_stride_);
    to_.q_ = c.floats(batch * to_.q_stride_);
    to_.a_ = c.floats(batch * to_.a_stride_);
    to_.f_ = c.floats(batch * to_.f_stride_);
    to_.wanted_ = c.floats(logit_rows * to_.x_stride_);
    to_.logits_ = c.floats(logit_rows * to_.logit_stride_);
    const std::int64_t queries =
        std::max<std::int64_t>(kAttentionQueries, to_.shape_.heads / to_.shape_.kv_heads);
    for (WorkerScratch& w : to_.workers_) {
      w.unpack = c.floats(kUnpackFloats);
      w.tile = c.floats(batch * to_.tile_cols_);
      w.rows = c.floats(kPrivateRows * to_.x_stride_);
      w.attention = c.floats(attention_scratch_floats(queries, to_.head_pad_));
      w.row = c.floats(to_.x_stride_);
    }
    to_.cos_ = c.floats(l.context * to_.pairs_ + kLanes);
    to_.sin_ = c.floats(l.context * to_.pairs_ + kLanes);
  }

  Result<void> take_scratch() {
    to_.workers_.resize(static_cast<std::size_t>(to_.pool_.size()));
    Carver probe(nullptr);
    carve_scratch(probe);
    HF_TRY(to_.scratch_, Region::take(probe.used(), "scratch"));
    to_.scratch_.populate();
    to_.scratch_used_ = to_.scratch_.bytes();
    Carver carver(to_.scratch_.data());
    carve_scratch(carver);
    const auto batch = static_cast<std::size_t>(to_.limits_.batch_tokens);
    to_.tokens_.reserve(batch);
    to_.runs_.reserve(batch);
    to_.logit_tokens_.reserve(static_cast<std::size_t>(std::max(to_.limits_.logit_rows, 1)));
    to_.tickets_ = std::vector<std::atomic<std::int64_t>>(program_.ops.size());
    return {};
  }

  Result<void> fill_rope() {
    to_.pool_.run([&](int worker) {
      const Share share = share_of(to_.limits_.context, worker, to_.pool_.size());
      for (std::int64_t p = share.first; p < share.last; ++p) {
        for (std::int64_t i = 0; i < to_.pairs_; ++i) {
          const double angle =
              static_cast<double>(p) * program_.inv_freq[static_cast<std::size_t>(i)];
          to_.cos_[p * to_.pairs_ + i] = static_cast<float>(std::cos(angle));
          to_.sin_[p * to_.pairs_ + i] = static_cast<float>(std::sin(angle));
        }
      }
    });
    return {};
  }

  const model::Program& program_;
  const backend::LoadOptions& options_;
  CpuExecutor& to_;
  std::vector<Job> jobs_;
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
  if (l.kv_type != "f16" && l.kv_type != "f32") {
    return Error{Errc::kUnsupported,
                 "load cpu: kv type " + l.kv_type + ": not built; expected f16 or f32"};
  }
  const plan::ModelShape& s = program.shape;
  if (program.ops.empty() || s.head_dim <= 0 || s.kv_heads <= 0 || s.heads % s.kv_heads != 0 ||
      static_cast<std::int64_t>(program.inv_freq.size()) * 2 > s.head_dim) {
    return Error{Errc::kUnsupported, "load cpu: the program's heads or rotary pairs do not fit"};
  }
  return {};
}

}  // namespace

CpuExecutor::CpuExecutor(const model::Program& program, const backend::LoadOptions& options,
                         const Kernels& kernels)
    : kernels_(kernels),
      shape_(program.shape),
      limits_(options.limits),
      pool_(options.threads),
      half_(options.limits.kv_type == "f16") {}

Result<std::unique_ptr<CpuExecutor>> CpuExecutor::load(const model::Program& program,
                                                       const backend::LoadOptions& options) {
  HF_CHECKED(check_limits(program, options));
  HF_TRY(const Kernels* kernels, select_family(options.kernels));
  std::unique_ptr<CpuExecutor> executor(new CpuExecutor(program, options, *kernels));
  HF_CHECKED(Loader(program, options, *executor).load());
  return executor;
}

Result<std::unique_ptr<backend::Executor>> load(const model::Program& program,
                                                const backend::LoadOptions& options) {
  HF_TRY(auto executor, CpuExecutor::load(program, options));
  return std::unique_ptr<backend::Executor>(std::move(executor));
}

}  // namespace holdfast::cpu
