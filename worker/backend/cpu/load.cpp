// Loads a program: measures its parts, takes all memory at once, fills it, and hands the parts to
// an executor.

#include <algorithm>
#include <cmath>

#include "shared/plan/scratch.h"
#include "worker/backend/cpu/executor.h"
#include "worker/backend/cpu/family.h"
#include "worker/backend/cpu/load.h"
#include "worker/backend/cpu/pack_program.h"

namespace holdfast::cpu {
namespace {

using model::OpKind;

/// Builds the parts of an executor.
class Loader {
 public:
  Loader(const model::Program& program, const backend::LoadOptions& options, const Kernels& kernels)
      : program_(program),
        options_(options),
        to_(std::make_unique<ForwardContext>(kernels, program.shape, options,
                                             *kv_type_of(options.limits.kv_type))) {}

  Result<std::unique_ptr<ForwardContext>> load() {
    measure_heads();
    // Before anything is allocated, so that what a thread packs lies where it is read later.
    to_->pool.run([&](int worker) { to_->numa_nodes.enter(worker); });
    ProgramPacker packer(program_, options_, measure_pages(), *to_);
    HOLDFAST_TRY(const std::size_t bytes, packer.measure());
    HOLDFAST_TRY(CachedWeights::Taken taken,
                 CachedWeights::take(bytes, class_prefix_of(to_->kernels), options_));
    LoadedMemory& memory = to_->memory;
    memory.weights = std::move(taken.region);
    memory.cached_weights = std::move(taken.weights);
    memory.found_packed = taken.full;
    HOLDFAST_CHECKED(take(static_cast<std::size_t>(kv_bytes_), "KV", memory.kv));
    HOLDFAST_CHECKED(take_scratch());
    HOLDFAST_CHECKED(packer.fill(memory.weights.data(), taken.full));
    if (!taken.full && memory.cached_weights) memory.cached_weights->publish(memory.weights);
    to_->tickets.reserve(to_->program.ops);
    fill_rope_tables();
    return std::move(to_);
  }

 private:
  void measure_heads() {
    const plan::KvHeads kinds[] = {plan::plain_heads(to_->shape), plan::window_heads(to_->shape)};
    for (int i = 0; i < kHeadKinds; ++i) {
      HeadKind& kind = to_->head_kinds[i];
      kind.kv_heads = kinds[i].heads;
      kind.head_dim = kinds[i].head_dim;
      kind.pad = round_up(kind.head_dim, kLanes);
      kind.page_bytes = kind.kv_heads * head_page_bytes(to_->kv_type, kind.pad);
    }
  }

  /// Measures the pages' memory; returns the offset of each layer's keys in it.
  std::vector<std::int64_t> measure_pages() {
    const plan::ModelShape& s = to_->shape;
    std::vector<std::int64_t> pages_at;
    for (std::int64_t l = 0; l < s.layers; ++l) {
      pages_at.push_back(s.causal ? kv_bytes_ : 0);  // an encoder's serve one layer at a time
      if (plan::is_recurrent(s, l) || !plan::has_kv_pages(s, l)) continue;
      const HeadKind& kind = to_->head_kinds[head_kind_of(program_, l)];
      const std::int64_t bytes = 2 * kind.page_bytes * to_->limits.pages;
      kv_bytes_ = s.causal ? kv_bytes_ + bytes : bytes;
    }
    return pages_at;
  }

  /// Takes memory that all threads read, from all NUMA nodes in turn.
  Result<void> take(std::size_t bytes, const char* what, Region& region) {
    HOLDFAST_TRY(region, Region::take(bytes, what));
    to_->numa_nodes.spread(region.data(), region.bytes());
    region.populate();
    return {};
  }

  Result<void> take_scratch() {
    const backend::Limits& l = to_->limits;
    const plan::ScratchPlan plan(
        to_->shape, {l.context, static_cast<std::uint64_t>(l.batch_tokens),
                     static_cast<std::uint64_t>(std::max(l.logit_rows, 1)), options_.threads});
    HOLDFAST_CHECKED(take(static_cast<std::size_t>(plan.bytes()), "scratch", to_->memory.scratch));
    to_->buffers = carve(plan, to_->shape,
                         std::max(to_->kernels.item_panels, to_->prefill_kernels.item_panels),
                         options_.threads, to_->memory.scratch.data());
    CHECK(to_->buffers.dense_out.at != nullptr || !has_kind(OpKind::kNormStore));
    const std::int32_t most = l.states > 0 ? l.states : l.batch_segments;
    const auto bytes = static_cast<std::size_t>(plan::state_bytes(to_->shape, most));
    to_->batch.reserve(batch_limits(), bytes > 0 ? most : 0);
    return bytes > 0 ? take(bytes, "states", to_->memory.states) : Result<void>{};
  }

  BatchLimits batch_limits() const {
    BatchLimits limits;
    limits.limits = to_->limits;
    limits.vocab = to_->shape.vocab;
    limits.causal = to_->shape.causal;
    limits.has_prefill_kernels = to_->kernels.prefill_heavy_ratio > 0;
    const PackedProgram& program = to_->program;
    limits.drops_rows = program.for_all > 0 && program.for_all < program.ops.size();
    for (int i = 0; i < kHeadKinds; ++i) {
      const std::int64_t kv_heads = to_->head_kinds[i].kv_heads;
      if (kv_heads == 0) continue;
      const auto group = static_cast<std::int32_t>(to_->shape.heads / kv_heads);
      limits.run_tokens[i] = {std::max(1, to_->kernels.attention_queries / group),
                              std::max(1, to_->prefill_kernels.attention_queries / group)};
    }
    return limits;
  }

  bool has_kind(OpKind kind) const {
    return std::any_of(program_.ops.begin(), program_.ops.end(),
                       [&](const model::Op& op) { return op.kind == kind; });
  }

  void fill_rope_tables() {
    for (std::size_t i = 0; i < program_.ropes.size(); ++i) {
      const model::Rope& rope = program_.ropes[i];
      const bool far = !rope.inv_freq_long.empty() && to_->limits.context > rope.long_from;
      const std::vector<double>& frequency = far ? rope.inv_freq_long : rope.inv_freq;
      const RopeTable* tables = to_->buffers.rope_tables;
      fill_table(tables[i], frequency, [&](std::int64_t) { return rope.magnitude; });
      if (!has_query_table(program_)) continue;
      fill_table(tables[1], frequency,
                 [&](std::int64_t p) { return rope.magnitude * rope.of_query(p); });
    }
  }

  template <class Magnitude>
  void fill_table(const RopeTable& table, const std::vector<double>& frequency,
                  Magnitude magnitude_of) {
    to_->pool.run([&](int worker) {
      const Share share = share_of(to_->limits.context, worker, to_->pool.size());
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
  std::unique_ptr<ForwardContext> to_;
  std::int64_t kv_bytes_ = 0;
};

Result<void> check_limits(const backend::LoadOptions& options) {
  const backend::Limits& l = options.limits;
  if (std::min({l.context, std::int64_t{l.pages}, std::int64_t{l.batch_tokens},
                std::int64_t{l.batch_segments}}) <= 0) {
    return Error{Errc::kUsage,
                 "load cpu: context, pages, batch_tokens and batch_segments must be positive"};
  }
  if (options.threads < 1) return Error{Errc::kUsage, "load cpu: threads must be at least 1"};
  if (!kv_type_of(l.kv_type)) {
    return Error{Errc::kUnsupported,
                 "load cpu: kv type " + l.kv_type + ": expected f32, f16, bf16, int8 or fp8"};
  }
  return {};
}

bool heads_fit(const plan::ModelShape& s) {
  if (s.head_dim <= 0 || s.head_dim > kHeadDimMost) return false;
  if (s.kv_heads <= 0 || s.heads % s.kv_heads != 0) return false;
  return s.rope_dims <= s.head_dim && s.window_head_dim <= kHeadDimMost &&
         s.window_rope_dims <= plan::window_head_dim(s);
}

/// True if the program's rotations have the tables that plan::ScratchPlan has for its shape.
bool ropes_fit(const model::Program& program) {
  const plan::ModelShape& s = program.shape;
  const std::int64_t dims[] = {s.rope_dims, plan::second_rope_dims(s)};
  if (program.ropes.size() > 2) return false;
  for (std::size_t i = 0; i < program.ropes.size(); ++i) {
    if (static_cast<std::int64_t>(program.ropes[i].inv_freq.size()) != dims[i] / 2) return false;
  }
  return !has_query_table(program) || dims[1] == dims[0];
}

WeightKinds kinds_of(const model::Program& program) {
  WeightKinds kinds;
  model::for_products(program, [&](const model::Op&, const model::WeightRef& w) {
    const auto format = format_of(w.tensor->type);
    kinds.quantised |= format.has_value() && layout_of(*format).has_d;
    kinds.bf16 |= format == Format::kBF16;
  });
  return kinds;
}

}  // namespace

Result<std::unique_ptr<CpuExecutor>> CpuExecutor::load(const model::Program& program,
                                                       const backend::LoadOptions& options) {
  HOLDFAST_CHECKED(check_limits(options));
  if (program.ops.empty() || !heads_fit(program.shape) || !ropes_fit(program)) {
    return Error{Errc::kUnsupported, "load cpu: the program's heads or rotary pairs do not fit"};
  }
  HOLDFAST_TRY(const Kernels* kernels, select_family(options.kernels, kinds_of(program)));
  HOLDFAST_TRY(std::unique_ptr<ForwardContext> context, Loader(program, options, *kernels).load());
  return std::make_unique<CpuExecutor>(std::move(context));
}

Result<std::unique_ptr<backend::Executor>> load(const model::Program& program,
                                                const backend::LoadOptions& options) {
  HOLDFAST_TRY(auto executor, CpuExecutor::load(program, options));
  return std::unique_ptr<backend::Executor>(std::move(executor));
}

}  // namespace holdfast::cpu
