#include "worker/backend/opencl/pipeline/pipeline_parallel.h"

#include "worker/backend/opencl/device/rates.h"
#include "worker/backend/opencl/single/loader.h"

namespace holdfast::opencl {
namespace {

// Devices idle while the first micro-batch comes and the last one goes: the more, the less of that.
constexpr std::size_t kMicroBatchesPerDevice = 4;  // for each device

}  // namespace

PipelineParallelExecutor::PipelineParallelExecutor(Parts&& parts, std::vector<Staging>&& host,
                                                   std::vector<std::int64_t> layers)
    : Group(std::move(parts), std::move(host), 1),
      layers_(std::move(layers)),
      micro_batches_(parts_[0]->limits(), kMicroBatchesPerDevice * parts_.size()) {
  capabilities_ = parts_.back()->capabilities();
  capabilities_.class_prefix = class_prefix();
  // Where the last part also holds the embedding, because it is the output's matrix, it looks the
  // tokens up and the first layers get its rows.
  const std::size_t last = parts_.size() - 1;
  const std::size_t before = parts_.size() > 1 ? parts_[last]->leading() : 0;
  if (before > 0) stages_.push_back({last, 0, before});
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    stages_.push_back({p, p == last ? before : 0, parts_[p]->operations().size()});
    may_wait_ = may_wait_ && parts_[p]->inbox().buffer != nullptr;
  }
}

Result<backend::StepResult> PipelineParallelExecutor::forward(const backend::Batch& batch) {
  if (parts_.size() > 1 && may_wait_) {
    const std::vector<MicroBatch>& micro_batches = micro_batches_.cut(batch, micro_batch_rows_);
    if (micro_batches.size() > 1) {
      const Result<void> enqueued = run_micro_batches(micro_batches);
      HOLDFAST_CHECKED(settle());
      if (!enqueued.has_value()) return enqueued.error();
      return parts_.back()->conclude(batch);
    }
  }
  begin(batch);
  run_stages();
  HOLDFAST_CHECKED(settle());
  return parts_.back()->finish();
}

Result<void> PipelineParallelExecutor::pass(const backend::Batch& batch, float* x,
                                            std::int64_t stride) {
  begin(batch);
  const Block all{0, parts_[0]->batch_rows(), 0, parts_[0]->width()};
  parts_[0]->queue().write_block(parts_[0]->scratch().x.at(), all, x, stride);
  run_stages();
  HOLDFAST_CHECKED(settle());
  OpenclExecutor& last = *parts_.back();
  last.queue().read_block(last.scratch().x.at(), all, x, stride);
  last.queue().finish();
  return settle();
}

Result<backend::StepResult> PipelineParallelExecutor::compute_deferred_logits(std::int32_t first,
                                                                              std::int32_t n) {
  return parts_.back()->compute_deferred_logits(first, n);
}

void PipelineParallelExecutor::run_stages() {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    if (i > 0)
      send_activations(stages_[i - 1].part, stages_[i].part, parts_[0]->batch_rows(), false);
    parts_[stages_[i].part]->run(stages_[i].first, stages_[i].end);
  }
}

/// In wave w, stage i runs micro-batch w - i. Rows wait outside of x, which the part may still need
/// for another stage: the stage of a tied embedding is on the last part, whose own layers come
/// last.
Result<void> PipelineParallelExecutor::run_micro_batches(
    const std::vector<MicroBatch>& micro_batches) {
  for (std::size_t wave = 0; wave + 1 < micro_batches.size() + stages_.size(); ++wave) {
    const auto has_micro_batch = [&](std::size_t stage) {
      return stage <= wave && wave - stage < micro_batches.size();
    };
    for (std::size_t stage = stages_.size(); stage-- > 0;) {
      if (has_micro_batch(stage))
        HOLDFAST_CHECKED(run_micro_batch(stage, micro_batches[wave - stage]));
    }
    for (std::size_t stage = 0; stage + 1 < stages_.size(); ++stage) {
      if (!has_micro_batch(stage)) continue;
      send_activations(stages_[stage].part, stages_[stage + 1].part,
                       micro_batches[wave - stage].rows, true);
    }
  }
  return {};
}

Result<void> PipelineParallelExecutor::run_micro_batch(std::size_t stage,
                                                       const MicroBatch& micro_batch) {
  OpenclExecutor& part = *parts_[stages_[stage].part];
  HOLDFAST_CHECKED(part.settle());
  part.begin(micro_batch.batch);
  if (stage > 0) {
    const RowsAt waiting = part.inbox();
    part.queue().move(waiting.buffer, part.scratch().x.get(),
                      static_cast<std::uint64_t>(micro_batch.rows) *
                          static_cast<std::uint64_t>(waiting.stride) * sizeof(float));
  }
  part.run(stages_[stage].first, stages_[stage].end);
  if (stage + 1 == stages_.size()) part.give(micro_batch.first_logit);
  part.queue().flush();
  return {};
}

void PipelineParallelExecutor::send_activations(std::size_t from, std::size_t to, std::int64_t rows,
                                                bool wait) {
  rows_.clear();
  for (const auto& part : parts_) rows_.push_back(part->scratch().x.at());
  if (wait) rows_[to] = parts_[to]->inbox();
  sends_.clear();
  // Rows that wait are moved whole, with the zeros after them.
  const std::int64_t columns = wait ? rows_[to].stride : parts_[0]->width();
  sends_.push_back({static_cast<int>(from), static_cast<int>(to), {0, rows, 0, columns}});
  communicator_.run(rows_, sends_);
}

/// The class of one device if all are alike, else the class and number of layers of each.
std::string PipelineParallelExecutor::class_prefix() const {
  if (alike()) return parts_[0]->capabilities().class_prefix;
  std::string all = "opencl/";
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    all += (i > 0 ? "+" : "") + parts_[i]->capabilities().class_prefix.substr(7) + ":" +
           std::to_string(layers_[i]);
  }
  return all;
}

Result<std::unique_ptr<backend::Executor>> load_pipeline_parallel(
    const std::vector<Device>& devices, const model::Program& program,
    const backend::LoadOptions& options, cpu::KvType kv_type) {
  const std::int64_t layers = program.shape.layers;
  if (static_cast<std::int64_t>(devices.size()) > layers) {
    return refuse_load(Errc::kUsage, std::to_string(layers) + " layers over " +
                                         std::to_string(devices.size()) +
                                         " devices; expected a layer for each");
  }
  HOLDFAST_TRY(const DeviceContexts device_contexts, DeviceContexts::open(devices));
  const DeviceMemoryPlan memory_plan(device_contexts, program, options, kv_type, true);
  const std::vector<double> rates = relative_rates(devices, options.cache_dir);
  HOLDFAST_TRY(const auto shares, memory_plan.share(layers, rates));
  if (!shares) return memory_plan.refusal();
  HOLDFAST_TRY(auto pipeline, open_layers(memory_plan, *shares, options));
  return std::unique_ptr<backend::Executor>(std::move(pipeline));
}

Result<std::unique_ptr<PipelineParallelExecutor>> open_layers(
    const DeviceMemoryPlan& memory_plan, const std::vector<std::int64_t>& shares,
    const backend::LoadOptions& options) {
  Group::Parts parts;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const model::Program part = memory_plan.part(i, first, first + shares[i]);
    first += shares[i];
    HOLDFAST_TRY(auto executor,
                 Loader::open(memory_plan.device_contexts().all[i], part,
                              options_of_part(options, i, shares.size()), memory_plan.kv_type()));
    parts.push_back(std::move(executor));
  }
  HOLDFAST_TRY(auto host, take_host(parts, memory_plan.device_contexts().peers,
                                    parts.back()->scratch().x.buffer.bytes()));
  return std::make_unique<PipelineParallelExecutor>(std::move(parts), std::move(host), shares);
}

}  // namespace holdfast::opencl
