#include "worker/engine/model_engine.h"

#include <algorithm>
#include <utility>

#include "shared/plan/plan.h"

namespace holdfast::engine {

namespace {

Error encoder_error(SequenceKey key) {
  return {Errc::kUnsupported,
          key_text(key) + "this model is an encoder: it makes embeddings, no text"};
}

/// Checks a configuration and fills in what follows from it.
ModelEngineConfig complete(ModelEngineConfig config) {
  CHECK(config.slots > 0 && config.pages > 0 && config.context > 0 && config.vocab > 0);
  CHECK(config.prefill_chunk > 0 && config.prefill_chunk_busy > 0);
  CHECK(config.drafts >= 0 && config.drafts <= kDraftsMax);
  CHECK(!config.assume_prompts || !config.prefix_cache);  // no other sequence may read such pages
  if (config.recurrent) config.assume_prompts = false;
  config.logit_rows = std::max(config.logit_rows, config.slots + config.drafts);
  return config;
}

}  // namespace

backend::Limits limits_for(const ModelEngineConfig& c, const std::string& kv_type) {
  backend::Limits l;
  l.context = c.context;
  l.pages = c.pages;
  l.batch_tokens = std::max(c.prefill_chunk, c.prefill_chunk_busy) + c.slots;
  l.batch_segments = c.slots;
  l.logit_rows = std::max(c.logit_rows, c.slots + c.drafts);
  if (c.recurrent) l.states = plan::states_of(c.slots);
  l.kv_type = kv_type;
  return l;
}

ModelEngine::ModelEngine(std::unique_ptr<backend::Executor> executor, ModelEngineConfig config)
    : config_(complete(std::move(config))),
      chunk_max_(std::max(config_.prefill_chunk, config_.prefill_chunk_busy)),
      executor_(std::move(executor)),
      slots_(config_),
      pages_(config_),
      results_(config_, pages_),
      sampler_(config_, std::exchange(config_.token_table, nullptr), *executor_, results_),
      probes_(config_, *executor_, slots_, sampler_, results_),
      drafts_(config_, pages_, sampler_, results_),
      scheduler_(config_, {slots_, pages_, sampler_, drafts_, results_}) {
  single_.segments.reserve(1);
}

/// kUnsupported: the model, or its load, makes vectors alone.
Result<void> ModelEngine::check_gives_text(SequenceKey key) const {
  if (!config_.causal) return encoder_error(key);
  const std::string& why = executor_->capabilities().no_logits;
  if (why.empty()) return {};
  return Error{Errc::kUnsupported, key_text(key) + "this load generates no text: " + why};
}

Result<void> ModelEngine::add(SequenceSpec spec) {
  HOLDFAST_TRY(SamplingExtra extra, sampling::parse_extra(spec.sampling.extra, config_.vocab));
  if (extra.embedding) return probes_.add_vector(std::move(spec), *extra.embedding);
  HOLDFAST_CHECKED(check_gives_text(spec.key));
  HOLDFAST_CHECKED(
      check_spec(spec, config_.vocabulary, config_.vocab, config_.context, config_.pages));
  HOLDFAST_TRY(const PrefixRoot prefix, PrefixRoot::from(spec.prefix_root));
  HOLDFAST_TRY(SamplingRequest request, sampler_.check(spec, std::move(extra)));
  HOLDFAST_TRY(Slot * slot, slots_.claim(spec.key));
  slot->tokens.assign(spec.prompt.begin(), spec.prompt.end());
  slot->prompt_n = slot->length();
  slot->generated_max = generated_max(spec, config_.context);
  slot->priority = spec.priority;
  slot->prefill_heavy = is_prefill_heavy(spec, executor_->capabilities().prefill_heavy_ratio);
  slot->prefix.root = {prefix.scope, slot->prefill_heavy};
  if (wants_scores(spec)) probes_.request_scores(*slot, spec.sampling.prompt_logprobs);
  sampler_.start(*slot, std::move(spec), std::move(request));
  return {};
}

Result<void> ModelEngine::add_embedding(const EmbedSpec& spec) {
  return probes_.add_embedding(spec);
}

Result<void> ModelEngine::add_probe(SequenceKey key, Probe probe) {
  HOLDFAST_CHECKED(check_gives_text(key));
  return probes_.add_probe(key, std::move(probe));
}

void ModelEngine::set_prefill_chunk(std::int32_t tokens, std::int32_t tokens_busy) {
  CHECK(tokens > 0 && tokens_busy > 0);
  CHECK(std::max(tokens, tokens_busy) <= chunk_max_);
  config_.prefill_chunk = tokens;
  config_.prefill_chunk_busy = tokens_busy;
}

void ModelEngine::cancel(SequenceKey key) {
  if (Slot* slot = slots_.find(key)) results_.release(*slot);
}

void ModelEngine::cancel_all() {
  for (Slot& slot : slots_.all()) {
    if (slot.state != Slot::State::kFree) results_.release(slot);
  }
}

void ModelEngine::pause(SequenceKey key, bool paused) {
  if (Slot* slot = slots_.find(key)) slot->paused = paused;
}

bool ModelEngine::idle() const {
  return std::ranges::all_of(slots_.all(), [](const Slot& s) {
    return s.state == Slot::State::kFree || (s.paused && s.finish == wire::FinishReason::kNone);
  });
}

Usage ModelEngine::usage() const {
  Usage u = results_.usage();
  u.running = static_cast<std::int32_t>(std::ranges::count_if(
      slots_.all(), [](const Slot& s) { return s.state != Slot::State::kFree; }));
  u.pages_used = pages_.total() - pages_.available();
  const backend::ExecutorCounters counters = executor_->counters();
  u.allocations += counters.allocations;
  u.barriers = counters.barriers;
  return u;
}

wire::LoadedModel ModelEngine::describe() const {
  wire::LoadedModel m;
  m.model_sha = config_.model_sha;
  m.numerics_class = config_.numerics_class;
  m.state = "ready";
  m.slots = config_.slots;
  m.pages_total = config_.pages;
  m.page_tokens = plan::kPageTokens;
  m.context = config_.context;
  const backend::Memory memory = executor_->memory();
  if (memory.found_packed) m.reason = "weights were packed already";
  if (memory.on_device) m.memory.taken = -1;  // not visible in this process
  m.memory.weights = static_cast<std::int64_t>(memory.weights);
  m.memory.kv = static_cast<std::int64_t>(memory.kv);
  m.memory.scratch = static_cast<std::int64_t>(memory.scratch);
  m.progress = 1;
  return m;
}

/// Reports sequences that had ended before they were added.
void ModelEngine::produce_ended() {
  for (Slot& slot : slots_.all()) {
    if (slot.state == Slot::State::kFree || slot.finish == wire::FinishReason::kNone) continue;
    Produced p;
    p.key = slot.key;
    p.start = slot.generated();
    p.finish = slot.finish;
    results_.end(slot, std::move(p));
  }
}

const std::vector<Produced>& ModelEngine::step() {
  results_.clear();
  if (device_error_) {
    lose_device(Error(*device_error_));
    return results_.produced();
  }
  produce_ended();
  const bool waits = sampler_.take_grammars(slots_.all());
  StepPlan& plan = scheduler_.plan();
  if (!plan.planned.empty()) {
    const std::int64_t start_us = config_.clock->monotonic_us();
    run(plan);
    scheduler_.learn(config_.clock->monotonic_us() - start_us);
  } else if (waits && results_.produced().empty()) {
    sampler_.wait_for_grammar();  // nothing else is to be done
  }
  return results_.produced();
}

/// Runs all segments in one forward.
void ModelEngine::run(StepPlan& plan) {
  ++results_.usage().steps;
  auto all = executor_->forward(plan.batch);
  // A draft may lead where the text never goes, and where numbers are no longer finite. The states
  // of the other sequences have moved on; that of the sequence with the draft has not.
  if (!all.has_value() && all.error().code != Errc::kModelFailed && drafts_.drop(plan) &&
      (!config_.recurrent || plan.planned.size() == 1)) {
    all = executor_->forward(plan.batch);
  }
  if (all.has_value()) {
    sampler_.sample_in_parallel(plan.planned, *all);
    return collect_all(plan, *all);
  }
  if (all.error().code == Errc::kModelFailed) return lose_device(all.error());
  if (plan.planned.size() == 1) {
    pages_.drop_snapshot(plan.planned[0]);
    return results_.fail(*plan.planned[0].slot, all.error());
  }
  run_each(plan);
}

/// Runs each segment alone, as a sequence whose numbers went wrong must not take its neighbours
/// with it (what they wrote is written again, bit for bit).
void ModelEngine::run_each(const StepPlan& plan) {
  for (const Planned& planned : plan.planned) {
    if (!device_error_) run_alone(planned);
  }
}

/// Computes everything before the segment once more, as the forward that failed has moved the state
/// on.
Result<void> ModelEngine::recompute_state(const Planned& planned) {
  backend::Segment before = planned.segment;
  before.wants = {};
  before.states = {planned.segment.states.at};
  for (std::int64_t at = 0; at < planned.segment.start; at += before.n) {
    before.tokens = planned.slot->tokens.data() + at;
    before.start = at;
    before.n =
        static_cast<std::int32_t>(std::min<std::int64_t>(chunk_max_, planned.segment.start - at));
    single_.segments.assign(1, before);
    HOLDFAST_CHECKED(executor_->forward(single_));
  }
  return {};
}

Result<backend::StepResult> ModelEngine::forward_alone(const Planned& planned) {
  if (config_.recurrent) HOLDFAST_CHECKED(recompute_state(planned));
  single_.segments.assign(1, planned.segment);
  if (config_.recurrent) single_.segments[0].states.from = -1;
  return executor_->forward(single_);
}

void ModelEngine::run_alone(const Planned& planned) {
  const Result<backend::StepResult> one = forward_alone(planned);
  if (one.has_value()) return collect(planned, *one, 0, 0);
  if (one.error().code != Errc::kModelFailed) pages_.drop_snapshot(planned);
  fail(*planned.slot, one.error());
}

/// Collects sequences with rows of this forward first, then those that request more rows, which
/// overwrite these.
void ModelEngine::collect_all(const StepPlan& plan, const backend::StepResult& result) {
  for (const bool deferred : {false, true}) {
    std::int32_t row = 0, first = 0;
    for (const Planned& planned : plan.planned) {
      const backend::Wants& wants = planned.segment.wants;
      if (wants.is_deferred() == deferred && !device_error_) collect(planned, result, row, first);
      first += planned.segment.n;
      row += wants.logit_rows();
    }
  }
}

/// Takes in one segment. `row`, `first`: its first row of the logits and first token of the batch.
void ModelEngine::collect(const Planned& planned, const backend::StepResult& result,
                          std::int32_t row, std::int32_t first) {
  Slot& slot = *planned.slot;
  const backend::Segment& segment = planned.segment;
  if (slot.pending() > 1 || slot.generated() == 0) {
    results_.usage().prefill_tokens += static_cast<std::uint64_t>(segment.n);
  }
  slot.computed = segment.start + segment.n - planned.drafts;
  slot.recurrent.lag = 0;
  drafts_.restore_state(planned);
  pages_.unpin_origin(slot);
  if (slot.probe.pooler) return probes_.advance_embedding(slot, segment, result, first);
  if (slot.probe.request) return probes_.advance_probe(slot, segment, result, row);
  pages_.insert(planned);
  if (slot.probe.scores) {
    const Result<void> scored = probes_.advance_scores(slot, segment, first);
    return scored.has_value() ? void() : fail(slot, scored.error());
  }
  if (slot.pending() == 0) sampler_.sample_row(planned, result, row);
  if (planned.drafts > 0) drafts_.verify(planned, result, row);
}

/// Fails a sequence, or all of them where the error is that of a lost device.
void ModelEngine::fail(Slot& slot, const Error& error) {
  error.code == Errc::kModelFailed ? lose_device(error) : results_.fail(slot, error);
}

/// Fails all sequences: no result of a lost device counts, and nothing is tried on it again.
void ModelEngine::lose_device(const Error& error) {
  device_error_ = error;
  for (Slot& slot : slots_.all()) {
    if (slot.state != Slot::State::kFree) results_.fail(slot, error);
  }
}

}  // namespace holdfast::engine
