#pragma once
// Speculative decoding: where few sequences decode, one may be given draft tokens after its last
// token (draft.h). The forward pass gives the logits after each, and sampling goes on over them as
// long as it samples the draft. Rows have the same bits with and without neighbours, so draft
// tokens change no token.
//
// Where layers carry a state, a state that went over rejected draft tokens does not come back, so a
// step with draft tokens leaves two states in spare slots: the one before the draft and the one
// after it. Where some draft tokens are accepted and some rejected, the sequence has the first of
// them, and the next step goes over the accepted ones once more (RecurrentState::lag).

#include <cstdint>
#include <vector>

#include "worker/engine/model_engine_config.h"
#include "worker/engine/sequence_pages.h"
#include "worker/engine/sequence_sampler.h"
#include "worker/engine/step_plan.h"
#include "worker/engine/step_results.h"

namespace holdfast::engine {

/// Adds draft tokens to what is planned and verifies them. Not thread-safe: the engine's thread
/// alone.
class SpeculativeDecoder {
 public:
  SpeculativeDecoder(const ModelEngineConfig& config, SequencePages& pages,
                     SequenceSampler& sampler, StepResults& results);

  /// Adds draft tokens after the last token of a sequence that decodes, if they are likely to pay.
  void add(Planned& planned, StepBudget& budget, Drafter::Price price);
  /// Takes the draft tokens out of what is planned. False if there were none.
  bool drop(StepPlan& plan) const;
  /// Puts a sequence whose segment was run back to the state before its draft.
  void restore_state(const Planned& planned);
  /// Goes on over the rows after draft tokens as long as those are what was sampled. `row`: the one
  /// before the first draft token, whose token is sampled already.
  void verify(const Planned& planned, const backend::StepResult& result, std::int32_t row);

 private:
  std::int64_t most(const Planned& planned, const StepBudget& budget) const;
  void redirect_state(backend::Segment& segment) const;

  const ModelEngineConfig& config_;
  SequencePages& pages_;
  SequenceSampler& sampler_;
  StepResults& results_;
  std::vector<TokenId> forced_;    // by the grammar of the sequence
  std::int32_t spare_before_ = 0;  // states of no slot: for a step with draft tokens
  std::int32_t spare_after_ = 0;
};

}  // namespace holdfast::engine
