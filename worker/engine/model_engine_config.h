#pragma once
// The configuration of a model engine, read by all of its parts.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "shared/base/clock.h"
#include "shared/grammar/token_table.h"
#include "shared/plan/plan.h"
#include "worker/backend/api/load.h"
#include "worker/engine/grammar_loader.h"
#include "worker/engine/stop_condition.h"

namespace holdfast::engine {

/// The most draft tokens of one step. Together with the decoding rows they are at most one more
/// than this: beyond that a row is no longer nearly free.
inline constexpr std::int32_t kDraftsMax = plan::kDraftRows;

/// The parts of a model engine: the model's vocabulary and the bounds of its load.
struct ModelEngineConfig {
  std::int32_t vocab = 0;
  Vocabulary vocabulary;
  std::shared_ptr<const grammar::TokenTable> token_table;  // of the vocabulary; null: built here
  std::int64_t context = 0;
  std::int32_t slots = 0;
  std::int32_t pages = 0;
  std::int32_t prefill_chunk = 512;       // prefill tokens a step, at most
  std::int32_t prefill_chunk_busy = 512;  // the same while others decode
  std::int64_t gap_us = 0;                // time of a step while others decode; as StepTimeModel
  const Clock* clock = &system_clock();
  std::int32_t logit_rows = 0;           // at least slots
  std::int64_t width = 0;                // of a vector
  bool causal = true;                    // false: an encoder, for add_embedding alone
  bool recurrent = false;                // layers carry states: backend::Segment::states
  std::optional<plan::Pooling> pooling;  // what the file names
  std::string model_sha;
  std::string numerics_class;
  GrammarCompile compile_grammar;  // empty: grammar::compile
  bool prefix_cache = true;
  bool assume_prompts = false;       // as EngineOptions; not with a prefix_cache
  std::int32_t drafts = kDraftsMax;  // draft tokens in one step at most; 0: none
};

/// The limits that an Executor for this configuration must be loaded with.
backend::Limits limits_for(const ModelEngineConfig& config, const std::string& kv_type);

}  // namespace holdfast::engine
