#pragma once
// The engine over a backend::Executor. All memory is taken in the constructor: a request brings its
// ids and parameters, and nothing else grows with requests.
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
// token that was produced is never sampled again.
//
// Full pages stay in the prefix cache (prefix_cache.h) for sequences that begin alike. A newcomer
// that begins as a sequence in prefill waits for the pages of that one.
//
// Where few sequences decode, one may be given draft tokens after its last token (draft.h):
// the forward pass gives the logits after each, and sampling goes on over them as long as it
// samples the draft. Rows have the same bits with and without neighbours, so draft tokens change no
// token.
//
// Where layers carry a state, each slot has one, which goes on from token to token and is made anew
// with the first. So a prefix that was computed is of use only as far as there is a snapshot of its
// state: after the last full page of each prompt, after the last one of the generated text, and
// where another sequence turns out to go on differently (Slot::marks). A state that went over
// rejected draft tokens does not come back, so a step with draft tokens leaves two states in spare
// slots: the one before the draft and the one after it. Where some draft tokens are accepted and
// some rejected, the sequence has the first of them, and the next step goes over the accepted ones
// once more (Slot::state_lag).
//
// Some executors have other kernels, with other bits, for prefill-heavy sequences. The request
// alone decides which kernels a sequence gets (is_prefill_heavy), never what runs with it.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/clock.h"
#include "shared/grammar/matcher.h"
#include "shared/plan/plan.h"
#include "worker/backend/backend.h"
#include "worker/engine/banned.h"
#include "worker/engine/draft.h"
#include "worker/engine/embedding.h"
#include "worker/engine/engine.h"
#include "worker/engine/grammar_loader.h"
#include "worker/engine/page_pool.h"
#include "worker/engine/prefix_cache.h"
#include "worker/engine/sampler.h"
#include "worker/engine/step_time_model.h"
#include "worker/engine/stop_condition.h"
#include "worker/engine/thinking.h"

namespace holdfast::engine {

/// The most draft tokens of one step. Together with the decoding rows they are at most one more
/// than this: beyond that a row is no longer nearly free.
inline constexpr std::int32_t kDraftsMax = plan::kDraftRows;

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
  bool recurrent = false;                // layers carry states: backend::Segment::state
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

/// A sequence of given tokens whose logits are requested (compute_logits). The sink gets (index
/// into positions, row [vocab]), in order, during step(); the row lives until it returns.
struct Probe {
  std::vector<TokenId> tokens;
  std::vector<std::int64_t> positions;  // ascending, below tokens.size()
  bool decode = false;                  // one token at a time, each after the one before
  std::function<void(std::size_t, const float*)> sink;
};

class ModelEngine final : public Engine {
 public:
  ModelEngine(std::unique_ptr<backend::Executor> executor, ModelEngineConfig config);

  Result<void> add(SequenceSpec spec) override;
  Result<void> add_embedding(EmbedSpec spec) override;
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
  Sampler& sampler() { return sampler_; }

 private:
  enum class State : std::uint8_t { kFree, kWaiting, kRunning };
  struct Slot {
    State state = State::kFree;
    SequenceKey key = 0;
    wire::Sampling sampling;
    SamplingExtra extra;
    std::shared_ptr<const BannedTexts> banned;             // null: any text
    std::string tail;                                      // generated bytes that `banned` looks at
    std::shared_ptr<const std::vector<TokenId>> breakers;  // null: none
    float mu = 0;                                          // state of mirostat
    std::vector<TokenId> replayed;  // committed tokens that go through the sampler once more
    std::size_t replayed_n = 0;     // number of these that have
    std::int32_t choice = 0;
    std::int32_t priority = 0;
    StopCondition stop_condition;
    GrammarLoader::JobPtr grammar;              // not null: waits until it is compiled
    std::unique_ptr<grammar::Matcher> matcher;  // null: any text
    std::optional<ThinkingBound> thinking;      // nullopt: unbounded
    bool finishes = false;                      // its text is complete within generated_max
    std::int64_t generated_max = 0;
    bool prefill_heavy = false;          // backend::Segment
    PrefixRoot prefix;                   // of the spec; root() is whole
    std::int64_t cached = kNotLookedUp;  // tokens that the prefix cache had at its first admission
    std::unique_ptr<Probe> probe;
    std::unique_ptr<Pooler> pooler;  // null: no embedding
    // Scores of the prompt's tokens but the first, as far as they are computed, also when its pages
    // are given back in between. Null: not requested, or reported.
    std::unique_ptr<wire::PromptScores> scores;
    std::size_t probe_next = 0;   // index into probe->positions
    std::vector<TokenId> tokens;  // prompt, then generated; capacity context
    std::int64_t prompt_n = 0;
    std::int64_t computed = 0;        // positions [0, computed) are in the pages
    std::int32_t state_lag = 0;       // the last of these, which its state has not gone over
    std::int32_t at = 0;              // index of its own state
    std::vector<std::int32_t> pages;  // capacity of a whole context
    std::int32_t cached_pages = 0;    // number of these in the prefix cache
    std::int32_t from = -1;           // the cache's state that it goes on from; pinned
    std::vector<std::int32_t> marks;  // page counts after which its state is wanted, rising
    std::int32_t trail = -1;          // the page after which its newest snapshot was taken
    Drafter drafter;
    std::uint64_t age = 0;
    bool paused = false;
    wire::FinishReason finish = wire::FinishReason::kNone;

    static constexpr std::int64_t kNotLookedUp = -1, kCachedTold = -2;  // of `cached`
    PrefixRoot root() const { return {prefix.scope, prefill_heavy}; }
    std::int64_t length() const { return static_cast<std::int64_t>(tokens.size()); }
    std::int64_t generated() const { return length() - prompt_n; }
    std::int64_t pending() const { return length() - computed; }
    std::int64_t scored() const { return static_cast<std::int64_t>(scores->scores.size()); }
  };
  struct Planned {
    Slot* slot;
    backend::Segment segment;
    bool scores = false;         // its prompt is being scored
    std::int32_t drafts = 0;     // draft tokens at the end of the segment
    bool trails = false;         // its snapshot is after generated tokens
    LogitRow sampled_from = {};  // the row that `sampled` was sampled from, in parallel
    std::optional<TokenId> sampled = std::nullopt;

    bool caches_snapshot() const {
      return segment.snapshot_after > 0 && drafts == 0;
    }  // the segment makes a snapshot for the prefix cache
  };

  Slot* find(SequenceKey key);
  Result<Slot*> claim(SequenceKey key);
  bool take_grammars();
  Result<void> make_matcher(Slot& slot, const Result<GrammarLoader::Masks>& masks);
  void prepare_extra(Slot& slot, const SequenceSpec& spec);
  static bool is_bound(const Slot& slot);
  void force(const Slot& slot, SampleInput& in);
  void append_tail(Slot& slot, TokenId id);
  void release(Slot& slot);

  void produce_ended();
  void plan();
  bool plan_running(Slot& slot);
  void put_prefill_heavy_last();
  bool may_grow(const Slot& slot) const;
  bool admit(Slot& slot);
  bool preempt_for(const Slot& slot, std::int32_t needed);
  Slot* victim(const Slot& slot);
  void preempt(Slot& slot);
  bool grow(Slot& slot, std::int64_t positions);
  std::int32_t available() const { return pool_.free() + cache_.evictable(); }
  std::int32_t take_page(const Slot& slot);
  void give_pages(Slot& slot);
  bool shares_prefix(const Slot& slot) const;
  std::int32_t prefix_pages(const Slot& slot) const;
  void find_prefix(Slot& slot);
  void insert_prefix(Slot& slot);
  bool waits_for_prefix(const Slot& slot) const;
  static std::int32_t common_pages(const Slot& a, const Slot& b);
  bool caches_states() const { return config_.recurrent && config_.prefix_cache; }
  std::int32_t reusable_pages(const Slot& slot, std::int32_t most) const;
  static void mark(Slot& slot, std::int32_t pages);
  static void forget_marks(Slot& slot);
  void mark_branches();
  std::int64_t to_second_mark(const Slot& slot, std::int64_t n) const;
  void plan_snapshot(Planned& planned);
  void drop_snapshot(const Planned& planned);
  void insert_snapshot(const Planned& planned);
  std::int64_t drafts_most(const Planned& planned) const;
  void add_drafts(Slot& slot);
  bool drop_drafts();
  void request_top_logits(const Slot& slot, backend::Segment& segment) const;
  void add_segment(Slot& slot, std::int64_t n);
  std::int32_t probe_rows(const Slot& slot, std::int64_t& n) const;
  std::int32_t logit_row_count(const Slot& slot, std::int64_t& n) const;
  bool ranks_before(const Slot& a, const Slot& b) const;

  void run();
  void run_alone(const Planned& planned);
  Result<void> restore_state(const Planned& planned);
  static bool can_sample_in_parallel(const Planned& planned);
  void sample_in_parallel(const float* rows);
  void collect_all(const float* rows);
  void verify_drafts(const Planned& planned, const float* rows, std::int32_t row);
  void collect(const Planned& planned, const float* rows, std::int32_t row, std::int32_t first);
  void fail(Slot& slot, const Error& error);
  void lose_device(const Error& error);
  LogitRow row_at(const float* rows, std::int32_t row) const;
  void want_scores(Slot& slot);
  void advance_scores(Slot& slot, const backend::Segment& segment, std::int32_t first);
  bool take_row(Slot& slot, std::int64_t position, const LogitRow& row);
  std::string scores_into(Slot& slot, std::string extra);
  void give_scores(Slot& slot);
  bool fill_input(Slot& slot, SampleInput& in);
  static void plain_input(Slot& slot, SampleInput& in);
  void sample_row(const Planned& planned, const float* rows, std::int32_t row);
  void sample_top(Slot& slot, std::int32_t n, std::int32_t row);
  void sample(Slot& slot, const LogitRow& row, const Planned* planned = nullptr);
  void produce(Slot& slot, TokenId id, const LogitRow* row);
  std::optional<TokenId> in_time(Slot& slot, const LogitRow& row, SampleInput& in, TokenId sampled);
  plan::Pooling usual_pooling() const;
  Result<void> add_vector(SequenceSpec spec, const sampling::EmbeddingOptions& options);
  void advance_embedding(Slot& slot, const backend::Segment& segment, std::int32_t first);
  void advance_probe(Slot& slot, const backend::Segment& segment, const float* rows);

  ModelEngineConfig config_;
  const std::int32_t chunk_max_;  // what the executor was loaded for
  std::unique_ptr<backend::Executor> executor_;
  PagePool pool_;
  PrefixCache cache_;
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
  std::vector<TokenId> forced_;
  std::vector<std::uint64_t> mask_;
  std::vector<std::uint64_t> short_mask_;  // those of mask_ that in_time() leaves
  std::vector<Slot> slots_;
  std::vector<Slot*> order_;
  std::vector<Planned> planned_;
  std::vector<backend::Segment> segments_;
  std::vector<backend::Segment> single_;
  std::int32_t spare_before_ = 0;  // states of no slot: for a step with draft tokens
  std::int32_t spare_after_ = 0;
  std::vector<Produced> produced_;
  std::optional<Error> device_error_;  // set once it failed: nothing is left to run on
  StepTimeModel step_time_model_;
  StepTimeModel::Work work_;    // of the step that is being planned
  std::int64_t budget_ = 0;     // prefill tokens left in this step
  std::int32_t rows_left_ = 0;  // rows that this step may still give to probes
  std::int32_t drafts_left_ = 0;
  std::uint64_t ages_ = 0;
  Usage usage_;
};

}  // namespace holdfast::engine
