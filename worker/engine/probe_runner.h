#pragma once
// Sequences that are read and not continued: probes, embeddings, scores of prompts.

#include <cstdint>

#include "shared/sampling/extra.h"
#include "worker/backend/api/executor.h"
#include "worker/engine/model_engine_config.h"
#include "worker/engine/sequence_sampler.h"
#include "worker/engine/slot_table.h"
#include "worker/engine/step_results.h"

namespace holdfast::engine {

/// Adds sequences whose rows are read, and takes their rows in: logits for probes, the last layer's
/// output for embeddings, log-probabilities of prompts. Not thread-safe: the engine's thread alone.
class ProbeRunner {
 public:
  ProbeRunner(const ModelEngineConfig& config, backend::Executor& executor, SlotTable& slots,
              SequenceSampler& sampler, StepResults& results);

  /// ModelEngine::add_probe, for a model that is no encoder.
  Result<void> add_probe(SequenceKey key, Probe probe);
  /// Engine::add_embedding.
  Result<void> add_embedding(const EmbedSpec& spec);
  /// Adds a request for one vector, which was made before if anything of it is committed.
  Result<void> add_vector(SequenceSpec spec, const sampling::EmbeddingOptions& options);
  /// Requests the scores of the prompt of a sequence that starts, each with `top` alternatives.
  void request_scores(Slot& slot, std::int32_t top) const;

  /// Rows that a probe requests of its next n tokens, of which there are `rows_left` beyond the
  /// first. A segment gives the logits of its last tokens, so `n` is cut where more would be needed
  /// than there are rows for, and after the last one requested.
  static std::int32_t row_count(const Slot& slot, std::int64_t& n, std::int32_t rows_left);
  /// Takes in the rows that a probe requested of a segment that was run; `row`: the first of them.
  void advance_probe(Slot& slot, const backend::Segment& segment, const backend::StepResult& result,
                     std::int32_t row);
  /// Takes in a segment of an embedding; `first`: its first token of the batch.
  void advance_embedding(Slot& slot, const backend::Segment& segment,
                         const backend::StepResult& result, std::int32_t first);
  /// Requests the row after each token of the segment, in slices of as many as there are logit
  /// rows: each predicts the next token of the prompt, the last one is sampled from. What was
  /// scored before the pages were given back is not requested again. An error is the executor's,
  /// and the sequence still there.
  Result<void> advance_scores(Slot& slot, const backend::Segment& segment, std::int32_t first);

 private:
  plan::Pooling usual_pooling() const;
  bool take_row(Slot& slot, std::int64_t position, const LogitRow& row);
  void report_scores(Slot& slot);

  const ModelEngineConfig& config_;
  backend::Executor& executor_;
  SlotTable& slots_;
  SequenceSampler& sampler_;
  StepResults& results_;
};

}  // namespace holdfast::engine
