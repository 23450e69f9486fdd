#pragma once
// The scheduler: which sequences a step computes, and how much of each.
//
// A slot is free, waiting (holds no pages: new, or preempted) or running (holds the pages of all of
// its tokens but perhaps the next one). Sequences rank by (priority, age); each step goes through
// them in that order once, so what is planned for a step is never taken away by a later one:
//   running, one token to compute     -> decode: one segment of one token
//   running, more tokens to compute   -> prefill, as far as the step's budget goes
//   waiting                           -> admitted when the pool has its pages and one more for each
//                                        running sequence that may want one, or can get them from
//                                        lower priorities
// Preempting gives the pages back; prompt and generated tokens are prefilled again later, and a
// token that was produced is never sampled again. A newcomer that begins as a sequence in prefill
// waits for the pages of that one.

#include <cstdint>
#include <vector>

#include "worker/engine/model_engine_config.h"
#include "worker/engine/sequence_pages.h"
#include "worker/engine/sequence_sampler.h"
#include "worker/engine/slot_table.h"
#include "worker/engine/speculative_decoder.h"
#include "worker/engine/step_plan.h"
#include "worker/engine/step_results.h"
#include "worker/engine/step_time_model.h"

namespace holdfast::engine {

/// The parts of the engine that a step's plan is made with.
struct SchedulerParts {
  SlotTable& slots;
  SequencePages& pages;
  SequenceSampler& sampler;
  SpeculativeDecoder& drafts;
  StepResults& results;
};

/// Plans steps: admits and preempts sequences, and divides pages and budget among them. Learns from
/// how long steps took. Not thread-safe: the engine's thread alone.
class Scheduler {
 public:
  Scheduler(const ModelEngineConfig& config, const SchedulerParts& parts);

  /// Plans the next step; nothing is planned if there is nothing to do. Valid until the next call.
  StepPlan& plan();
  /// Records how long the step that was planned last took.
  void learn(std::int64_t took_us) { step_time_model_.learn(budget_.work, took_us); }

 private:
  void begin();
  void finish();
  bool plan_running(Slot& slot);
  void plan_prefill(Slot& slot);
  bool may_begin(const Slot& slot) const;
  bool prefills_for(const Slot& other, const Slot& slot) const;
  static std::int32_t shared_pages(const Slot& slot, const Slot& other);
  bool waits_for_prefix(const Slot& slot) const;
  void mark_branches();
  static bool may_grow(const Slot& slot);
  bool admit(Slot& slot);
  bool is_nothing_running() const;
  bool preempt_for(const Slot& slot, std::int32_t needed);
  Slot* victim(const Slot& slot);
  void preempt(Slot& slot);
  bool grow(Slot& slot, std::int64_t positions);
  std::int32_t logit_row_count(const Slot& slot, std::int64_t& n) const;
  backend::Wants wants(const Slot& slot, const backend::Segment& s, std::int32_t rows) const;
  void add_segment(Slot& slot, std::int64_t n);
  void add_drafts(Slot& slot);

  const ModelEngineConfig& config_;
  SlotTable& slots_;
  SequencePages& pages_;
  SequenceSampler& sampler_;
  SpeculativeDecoder& drafts_;
  StepResults& results_;
  StepTimeModel step_time_model_;
  std::vector<Slot*> order_;  // by rank
  StepPlan plan_;
  StepBudget budget_;
};

}  // namespace holdfast::engine
