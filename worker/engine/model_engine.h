#pragma once
// The engine over a backend::Executor. Everything is taken in the constructor: a request brings its
// ids and parameters, and nothing else grows with requests.
//
// A slot is free, waiting (holds no pages: new, or preempted) or running (holds the pages of all of
// its tokens but perhaps the next one). Sequences rank by (priority, age); each step goes through
// them in that order once, so what is planned for a step is never taken away by a later one:
//   running, one token to compute     -> decode: one segment of one token
//   running, more tokens to compute   -> prefill, as far as the step's budget goes
//   waiting                           -> admitted when the pool has its pages and one more for each
//                                        running sequence, or can get them from lower priorities
// Preempting gives the pages back; prompt and generated tokens are prefilled again later, and a
// token that was produced is never sampled again.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/grammar/matcher.h"
#include "shared/grammar/request.h"
#include "worker/backend/backend.h"
#include "worker/engine/end_rule.h"
#include "worker/engine/engine.h"
#include "worker/engine/page_pool.h"
#include "worker/engine/sampler.h"

namespace holdfast::engine {

struct ModelEngineConfig {
  std::int32_t vocab = 0;
  Vocabulary vocabulary;
  std::int64_t context = 0;
  std::int32_t slots = 0;
  std::int32_t pages = 0;
  std::int32_t prefill_chunk = 512;       // prefill tokens a step
  std::int32_t prefill_chunk_busy = 128;  // the same while others decode
  std::int32_t logit_rows = 0;            // at least slots
  std::string model_sha;
  std::string numerics_class;
};

/// The limits that an Executor for this configuration must be loaded with.
backend::Limits limits_for(const ModelEngineConfig& config, const std::string& kv_type);

/// A sequence of given tokens whose logits are wanted (compute_logits). The sink gets
/// (index into positions, row [vocab]), in order, during step(); the row lives until it returns.
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
  void cancel(SequenceKey key) override;
  void pause(SequenceKey key, bool paused) override;
  const std::vector<Produced>& step() override;
  bool idle() const override;
  Usage usage() const override;
  wire::LoadedModel describe() const override;

  /// As add(). Ends with a Produced without ids: kLength when the last row was given, or kError.
  Result<void> add_probe(SequenceKey key, Probe probe);
  void cancel_all();
  /// Takes effect with the next step; within what the executor was loaded for (CHECKed).
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
    std::int32_t choice = 0;
    std::int32_t priority = 0;
    EndRule rule;
    std::unique_ptr<grammar::Matcher> matcher;  // null: any text
    std::unique_ptr<Probe> probe;
    std::size_t probe_next = 0;   // of probe->positions
    std::vector<TokenId> tokens;  // prompt, then generated; capacity context
    std::int64_t prompt_n = 0;
    std::int64_t computed = 0;        // positions [0, computed) are in the pages
    std::vector<std::int32_t> pages;  // capacity of a whole context
    std::uint64_t age = 0;
    bool paused = false;
    wire::FinishReason finish = wire::FinishReason::kNone;

    std::int64_t length() const { return static_cast<std::int64_t>(tokens.size()); }
    std::int64_t generated() const { return length() - prompt_n; }
    std::int64_t pending() const { return length() - computed; }
  };
  struct Planned {
    Slot* slot;
    backend::Segment segment;
  };

  Slot* find(SequenceKey key);
  Result<Slot*> claim(SequenceKey key);
  Result<std::unique_ptr<grammar::Matcher>> make_matcher(const SequenceSpec& spec);
  void release(Slot& slot);

  void produce_ended();
  void plan();
  bool plan_running(Slot& slot);
  bool admit(Slot& slot);
  bool make_room(const Slot& slot, std::int32_t needed);
  Slot* victim(const Slot& slot);
  void preempt(Slot& slot);
  bool grow(Slot& slot, std::int64_t positions);
  void add_segment(Slot& slot, std::int64_t n);
  std::int32_t probe_rows(const Slot& slot, std::int64_t& n) const;
  bool ranks_before(const Slot& a, const Slot& b) const;

  void run();
  void collect(const Planned& planned, const float* rows);
  void fail(Slot& slot, const Error& error);
  void sample(Slot& slot, const float* row);
  void advance_probe(Slot& slot, const backend::Segment& segment, const float* rows);

  ModelEngineConfig config_;
  const std::int32_t chunk_max_;  // what the executor was loaded for
  std::unique_ptr<backend::Executor> executor_;
  PagePool pool_;
  Sampler sampler_;
  std::unique_ptr<grammar::GrammarCache> grammars_;  // null without a tokenizer
  std::vector<std::uint64_t> mask_;
  std::vector<Slot> slots_;
  std::vector<Slot*> order_;
  std::vector<Planned> planned_;
  std::vector<backend::Segment> segments_;
  std::vector<backend::Segment> single_;
  std::vector<Produced> produced_;
  std::int64_t budget_ = 0;     // prefill tokens left in this step
  std::int32_t rows_left_ = 0;  // rows that this step may still give to probes
  std::uint64_t ages_ = 0;
  Usage usage_;
};

}  // namespace holdfast::engine
