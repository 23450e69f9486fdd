#pragma once
// The engine over a backend::Executor. All memory is taken in the constructor: a request brings its
// ids and parameters, and nothing else grows with requests.
//
// A sequence is in a Slot (slot.h), and each part of the slot is the matter of one class:
//   Scheduler           which sequences a step computes, and how much of each (scheduler.h)
//   SequencePages       pages of sequences, prefixes that they share (sequence_pages.h)
//   SpeculativeDecoder  draft tokens (speculative_decoder.h)
//   SequenceSampler     from a row of logits to a sequence's next token (sequence_sampler.h)
//   ProbeRunner         probes, embeddings, scores of prompts (probe_runner.h)
// ModelEngine adds sequences, runs the forward of what is planned, and gives each its rows.
//
// Some executors have other kernels, with other bits, for prefill-heavy sequences. The request
// alone decides which kernels a sequence gets (is_prefill_heavy), never what runs with it.

#include <memory>
#include <optional>
#include <vector>

#include "worker/backend/api/executor.h"
#include "worker/engine/engine.h"
#include "worker/engine/model_engine_config.h"
#include "worker/engine/probe_runner.h"
#include "worker/engine/scheduler.h"
#include "worker/engine/sequence_pages.h"
#include "worker/engine/sequence_sampler.h"
#include "worker/engine/slot_table.h"
#include "worker/engine/speculative_decoder.h"
#include "worker/engine/step_plan.h"
#include "worker/engine/step_results.h"

namespace holdfast::engine {

/// The engine of a model that is loaded. Not thread-safe, as Engine.
class ModelEngine final : public Engine {
 public:
  ModelEngine(std::unique_ptr<backend::Executor> executor, ModelEngineConfig config);

  Result<void> add(SequenceSpec spec) override;
  Result<void> add_embedding(const EmbedSpec& spec) override;
  void cancel(SequenceKey key) override;
  void pause(SequenceKey key, bool paused) override;
  const std::vector<Produced>& step() override;
  bool idle() const override;
  Usage usage() const override;
  wire::LoadedModel describe() const override;

  /// Adds a probe; errors as add(). It ends with a Produced without ids: kLength when the last row
  /// was given, or kError.
  Result<void> add_probe(SequenceKey key, Probe probe);
  void cancel_all();
  /// Sets the prefill tokens of a step. Takes effect with the next step; within what the executor
  /// was loaded for (CHECKed).
  void set_prefill_chunk(std::int32_t tokens, std::int32_t tokens_busy);
  const ModelEngineConfig& config() const { return config_; }
  Sampler& sampler() { return sampler_.sampler(); }

 private:
  void produce_ended();
  void run(StepPlan& plan);
  void run_each(const StepPlan& plan);
  void run_alone(const Planned& planned);
  Result<void> recompute_state(const Planned& planned);
  Result<void> check_gives_text(SequenceKey key) const;
  Result<backend::StepResult> forward_alone(const Planned& planned);
  void collect_all(const StepPlan& plan, const backend::StepResult& result);
  void collect(const Planned& planned, const backend::StepResult& result, std::int32_t row,
               std::int32_t first);
  void fail(Slot& slot, const Error& error);
  void lose_device(const Error& error);

  ModelEngineConfig config_;
  const std::int32_t chunk_max_;  // what the executor was loaded for
  std::unique_ptr<backend::Executor> executor_;
  SlotTable slots_;
  SequencePages pages_;
  StepResults results_;
  SequenceSampler sampler_;
  ProbeRunner probes_;
  SpeculativeDecoder drafts_;
  Scheduler scheduler_;
  backend::Batch single_;
  std::optional<Error> device_error_;  // set once it failed: nothing is left to run on
};

}  // namespace holdfast::engine
