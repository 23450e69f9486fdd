#pragma once
// Sampling for sequences: all that decides over a sequence's next token besides its row of logits.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shared/grammar/request.h"
#include "shared/grammar/token_table.h"
#include "worker/backend/api/executor.h"
#include "worker/backend/api/logit_row.h"
#include "worker/engine/grammar_loader.h"
#include "worker/engine/model_engine_config.h"
#include "worker/engine/sampler.h"
#include "worker/engine/slot.h"
#include "worker/engine/step_plan.h"
#include "worker/engine/step_results.h"

namespace holdfast::engine {

/// A request's sampling, checked; a sequence starts with it.
struct SamplingRequest {
  SamplingExtra extra;
  std::optional<grammar::GrammarRequest> grammar;
  std::optional<ThinkingBound> thinking;
};

/// Turns rows of logits into the tokens of sequences, by their grammars, banned texts, thinking
/// budgets, replayed tokens and log-probabilities, and reports them. Not thread-safe: the engine's
/// thread alone calls it; inside, sample_in_parallel() runs on the executor's threads.
class SequenceSampler {
 public:
  /// `table`: of the vocabulary; null: built here.
  SequenceSampler(const ModelEngineConfig& config, std::shared_ptr<const grammar::TokenTable> table,
                  backend::Executor& executor, StepResults& results);

  /// Checks what a sequence requests of sampling. kUnsupported: the model has no tokenizer for it,
  /// or no way to end its reasoning; kInvalidRequest: a grammar of another form.
  Result<SamplingRequest> check(const SequenceSpec& spec, SamplingExtra extra) const;
  /// Starts the sampling of a sequence whose slot has its prompt and generated_max, after its
  /// committed tokens. Slot::finish says whether it has ended with these.
  void start(Slot& slot, SequenceSpec spec, SamplingRequest request);
  /// Lets sequences go on whose grammar has come. True if others still wait for theirs.
  bool take_grammars(std::span<Slot> slots);
  /// Waits until a grammar has come, or a short time is over.
  void wait_for_grammar() { grammars_->wait(); }

  /// The results of its next `n` rows: only the greatest logits where the token follows from
  /// them.
  backend::Wants wants(const Slot& slot, std::int32_t n) const;
  /// Samples the rows of a forward that need nothing but what their slots say now, on the
  /// executor's threads. Nothing is reported: sample_row() takes the tokens from `planned`.
  void sample_in_parallel(std::span<Planned> planned, const backend::StepResult& result);
  /// Samples from a row of a segment that was run, and reports the token.
  void sample_row(const Planned& planned, const backend::StepResult& result, std::int32_t row);
  /// Samples the next token from `row`, and reports it; `planned` may have sampled it in parallel
  /// from the same row.
  void sample(Slot& slot, const LogitRow& row, const Planned* planned = nullptr);
  Sampler& sampler() { return sampler_; }

 private:
  wire::FinishReason begin_stops(Slot& slot, SequenceSpec& spec, bool ignore_eos);
  void take_committed(Slot& slot, std::vector<TokenId> committed);
  void prepare_banned(SamplingState& state);
  void prepare_breakers(SamplingState& state);
  static Result<void> make_matcher(Slot& slot, const Result<GrammarLoader::Masks>& masks);
  void append_tail(SamplingState& state, TokenId id);

  static bool can_sample_in_parallel(const Planned& planned);
  static void plain_input(Slot& slot, SampleInput& in);
  bool fill_input(Slot& slot, SampleInput& in);
  void force(TokenId id, SampleInput& in);
  std::optional<TokenId> in_time(Slot& slot, const LogitRow& row, SampleInput& in, TokenId sampled);
  std::optional<TokenId> sample_next(Slot& slot, const LogitRow& row, SampleInput& in,
                                     const Planned* planned);
  static void replay(Slot& slot, TokenId id);
  Error no_token_error(const Slot& slot, const LogitRow& row) const;
  void sample_top(Slot& slot, std::span<const backend::Ranked> top);
  void produce(Slot& slot, TokenId id, const LogitRow* row);

  const ModelEngineConfig& config_;
  backend::Executor& executor_;
  StepResults& results_;
  Sampler sampler_;
  std::vector<Sampler> worker_samplers_;   // of the executor's other workers
  std::vector<Candidate> top_candidates_;  // of a row whose executor gave top-k logits alone
  std::vector<Planned*> sampled_in_parallel_;
  std::shared_ptr<const grammar::TokenTable> table_;  // null without a tokenizer
  std::unique_ptr<GrammarLoader> grammars_;           // null without a tokenizer
  std::shared_ptr<const BannedTexts> last_banned_;    // requests of one client ask for the same
  std::vector<std::string> last_breakers_text_;
  std::shared_ptr<const std::vector<TokenId>> last_breakers_;
  std::vector<TokenId> excluded_;
  std::vector<std::uint64_t> mask_;
  std::vector<std::uint64_t> short_mask_;  // those of mask_ that in_time() leaves
};

}  // namespace holdfast::engine
