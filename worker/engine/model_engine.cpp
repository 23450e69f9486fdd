#include "worker/engine/model_engine.h"

#include <algorithm>
#include <utility>

#include "shared/plan/plan.h"
#include "worker/engine/row_passes.h"

namespace holdfast::engine {

namespace {

constexpr int kSamplersMost = 4;  // each has buffers of several rows

std::vector<TokenId> end_ids(const Vocabulary& vocabulary, std::int32_t vocab) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < vocab; ++id) {
    if (vocabulary.is_end(id)) ids.push_back(id);
  }
  return ids;
}

std::string key_text(SequenceKey key) {
  return "add sequence " + std::to_string(key) + ": ";
}

Error encoder_error(SequenceKey key) {
  return {Errc::kUnsupported,
          key_text(key) + "this model is an encoder: it makes embeddings, no text"};
}

Error grammar_error(std::int64_t index) {
  return {Errc::kUnsupported, "sample token " + std::to_string(index) +
                                  ": the grammar is too ambiguous; write it with fewer ways to "
                                  "read one text"};
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
    : config_(std::move(config)),
      chunk_max_(std::max(config_.prefill_chunk, config_.prefill_chunk_busy)),
      executor_(std::move(executor)),
      pool_(config_.pages),
      cache_(pool_, config_.slots, config_.recurrent ? plan::snapshot_states_of(config_.slots) : 0),
      sampler_(config_.vocab, end_ids(config_.vocabulary, config_.vocab)),
      slots_(static_cast<std::size_t>(config_.slots)),
      step_time_model_(config_.gap_us) {
  CHECK(config_.slots > 0 && config_.pages > 0 && config_.context > 0 && config_.vocab > 0);
  CHECK(config_.prefill_chunk > 0 && config_.prefill_chunk_busy > 0);
  CHECK(config_.drafts >= 0 && config_.drafts <= kDraftsMax);
  CHECK(!config_.assume_prompts || !config_.prefix_cache);  // no other sequence may read such pages
  if (config_.recurrent) config_.assume_prompts = false;
  config_.logit_rows = std::max(config_.logit_rows, config_.slots + config_.drafts);
  const std::size_t pages = static_cast<std::size_t>(pages_for(config_.context));
  if (config_.recurrent) {
    for (Slot& slot : slots_) slot.at = static_cast<std::int32_t>(&slot - slots_.data());
    spare_before_ = config_.slots + plan::snapshot_states_of(config_.slots);
    spare_after_ = spare_before_ + 1;
  }
  for (Slot& slot : slots_) {
    slot.tokens.reserve(static_cast<std::size_t>(config_.context));
    slot.pages.reserve(pages);
    slot.marks.reserve(slots_.size() + 2);
  }
  order_.reserve(slots_.size());
  planned_.reserve(slots_.size());
  segments_.reserve(slots_.size());
  produced_.reserve(slots_.size());
  sampled_in_parallel_.reserve(slots_.size());
  const int samplers = std::min({executor_->workers(), config_.slots, kSamplersMost});
  for (int i = 1; i < samplers; ++i) {
    worker_samplers_.emplace_back(config_.vocab, end_ids(config_.vocabulary, config_.vocab));
  }
  single_.reserve(1);
  usage_.pages_total = config_.pages;
  if (config_.vocabulary.tokenizer) {
    table_ = std::exchange(config_.token_table, nullptr);
    if (!table_) table_ = grammar::TokenTable::make(*config_.vocabulary.tokenizer);
    mask_.resize(table_->mask_words());
    short_mask_.resize(table_->mask_words());
    GrammarCompile compile = config_.compile_grammar;
    if (!compile) compile = [](const auto& request) { return grammar::compile(request); };
    grammars_ = std::make_unique<GrammarLoader>(table_, std::move(compile));
  }
}

ModelEngine::Slot* ModelEngine::find(SequenceKey key) {
  for (Slot& slot : slots_) {
    if (slot.state != State::kFree && slot.key == key) return &slot;
  }
  return nullptr;
}

Result<ModelEngine::Slot*> ModelEngine::claim(SequenceKey key) {
  if (find(key) != nullptr) return Error{Errc::kConflict, key_text(key) + "key in use"};
  for (Slot& slot : slots_) {
    if (slot.state != State::kFree) continue;
    slot.state = State::kWaiting;
    slot.key = key;
    slot.age = ++ages_;
    return &slot;
  }
  return Error{Errc::kRateLimited,
               key_text(key) + "all " + std::to_string(config_.slots) + " slots are taken"};
}

/// Makes the grammar's state after the committed ids (before them if they are replayed).
Result<void> ModelEngine::make_matcher(Slot& slot, const Result<GrammarLoader::Masks>& masks) {
  if (!masks) return masks.error();
  slot.matcher = std::make_unique<grammar::Matcher>(*masks);
  for (std::int64_t i = slot.prompt_n; i < slot.length(); ++i) {
    if (slot.matcher->accept(slot.tokens[static_cast<std::size_t>(i)])) continue;
    return Error{Errc::kInvalidRequest, key_text(slot.key) + "committed token " +
                                            std::to_string(i - slot.prompt_n) +
                                            " is not of its grammar"};
  }
  return {};
}

/// Lets sequences go on whose grammar has come. True if others still wait for theirs.
bool ModelEngine::take_grammars() {
  bool waits = false;
  for (Slot& slot : slots_) {
    if (slot.grammar == nullptr) continue;
    const Result<GrammarLoader::Masks>* masks = grammars_->result(*slot.grammar);
    if (masks == nullptr) {
      waits = true;
      continue;
    }
    const Result<void> made = make_matcher(slot, *masks);
    slot.grammar.reset();
    if (!made) fail(slot, made.error());
  }
  return waits;
}

/// Prepares the parts of extra sampling that are more than numbers.
void ModelEngine::prepare_extra(Slot& slot, const SequenceSpec& spec) {
  const SamplingExtra& extra = slot.extra;
  if (!extra.banned_strings.empty()) {
    if (!last_banned_ || last_banned_->texts() != extra.banned_strings) {
      last_banned_ = std::make_shared<const BannedTexts>(table_, extra.banned_strings);
    }
    slot.banned = last_banned_;
    if (extra.mirostat == 0) {
      for (const TokenId id : spec.committed) append_tail(slot, id);
    }
  }
  if (extra.dry_multiplier > 0 && table_) {
    if (!last_breakers_ || last_breakers_text_ != extra.dry_sequence_breakers) {
      last_breakers_text_ = extra.dry_sequence_breakers;
      last_breakers_ = std::make_shared<const std::vector<TokenId>>(
          breaker_tokens(*table_, extra.dry_sequence_breakers));
    }
    slot.breakers = last_breakers_;
  }
  if (slot.thinking && extra.mirostat == 0) {
    for (const TokenId id : spec.committed) slot.thinking->feed(id);
  }
  slot.mu = first_mu(extra);
}

/// True if one of the next tokens may be forced, so that their rows are needed as a whole.
bool ModelEngine::is_bound(const Slot& slot) {
  return slot.thinking && slot.thinking->free_tokens() <= kDraftsMax + 1;
}

void ModelEngine::append_tail(Slot& slot, TokenId id) {
  if (!slot.banned) return;
  slot.tail += table_->bytes(id);
  const std::size_t limit = slot.banned->tail_bytes();
  if (slot.tail.size() > limit) slot.tail.erase(0, slot.tail.size() - limit);
}

Result<void> ModelEngine::add(SequenceSpec spec) {
  HOLDFAST_TRY(SamplingExtra extra, sampling::parse_extra(spec.sampling.extra, config_.vocab));
  if (extra.embedding) return add_vector(std::move(spec), *extra.embedding);
  if (!config_.causal) return encoder_error(spec.key);
  HOLDFAST_CHECKED(
      check_spec(spec, config_.vocabulary, config_.vocab, config_.context, config_.pages));
  if (!extra.banned_strings.empty() && !table_) {
    return Error{Errc::kUnsupported, key_text(spec.key) + "banned strings need a tokenizer"};
  }
  HOLDFAST_TRY(const PrefixRoot prefix, PrefixRoot::from(spec.prefix_root));
  HOLDFAST_TRY(const auto request, grammar::read_extra(spec.sampling.extra));
  if (request && !grammars_) {
    return Error{Errc::kUnsupported, key_text(spec.key) + "a grammar needs a tokenizer"};
  }
  std::optional<ThinkingBound> thinking;
  if (extra.thinking) {
    if (!config_.vocabulary.tokenizer) {
      return Error{Errc::kUnsupported, key_text(spec.key) + "a thinking budget needs a tokenizer"};
    }
    HOLDFAST_TRY(thinking, ThinkingBound::make(*extra.thinking, *config_.vocabulary.tokenizer));
  }
  HOLDFAST_TRY(Slot * slot, claim(spec.key));
  slot->thinking = std::move(thinking);
  // After a complete text nothing is allowed but an end token, so that is the end.
  const bool ignore_eos = spec.sampling.ignore_eos && !request;
  slot->generated_max = generated_max(spec, config_.context);
  slot->finishes = request && request->finish && extra.mirostat == 0;  // ingress refuses both
  slot->stop_condition =
      StopCondition(&config_.vocabulary, std::move(spec.stops), slot->generated_max, ignore_eos);
  if (request) slot->grammar = grammars_->start(*request);
  const bool scores = wants_scores(spec);
  slot->finish = scores ? wire::FinishReason::kNone : slot->stop_condition.start();
  for (const TokenId id : spec.committed) {  // the choice may have ended with what was committed
    if (slot->finish != wire::FinishReason::kNone) break;
    slot->finish = slot->stop_condition.feed(id);
  }
  slot->extra = std::move(extra);
  prepare_extra(*slot, spec);
  slot->tokens.assign(spec.prompt.begin(), spec.prompt.end());
  if (slot->extra.mirostat != 0) {  // its state depends on the logits of every token
    slot->replayed = std::move(spec.committed);
  } else {
    slot->tokens.insert(slot->tokens.end(), spec.committed.begin(), spec.committed.end());
  }
  slot->prompt_n = static_cast<std::int64_t>(spec.prompt.size());
  slot->prefill_heavy = is_prefill_heavy(spec, executor_->prefill_heavy_ratio());
  slot->prefix = prefix;
  slot->sampling = std::move(spec.sampling);
  if (scores) want_scores(*slot);
  slot->choice = spec.choice;
  slot->priority = spec.priority;
  return {};
}

Result<void> ModelEngine::add_probe(SequenceKey key, Probe probe) {
  if (!config_.causal) return encoder_error(key);
  SequenceSpec spec;  // for the checks only
  spec.key = key;
  spec.prompt = probe.tokens;
  HOLDFAST_CHECKED(
      check_spec(spec, config_.vocabulary, config_.vocab, config_.context, config_.pages));
  const auto n = static_cast<std::int64_t>(probe.tokens.size());
  if (pages_for(n) > config_.pages) {
    return Error{Errc::kMemoryExhausted, key_text(key) + "needs " + std::to_string(pages_for(n)) +
                                             " KV pages, the pool has " +
                                             std::to_string(config_.pages)};
  }
  std::int64_t before = -1;
  for (const std::int64_t p : probe.positions) {
    if (p <= before || p >= n) {
      return Error{Errc::kInvalidRequest, key_text(key) + "position " + std::to_string(p) +
                                              "; expected ascending positions below " +
                                              std::to_string(n)};
    }
    before = p;
  }
  HOLDFAST_TRY(Slot * slot, claim(key));
  slot->tokens.assign(probe.tokens.begin(), probe.tokens.begin() + (probe.decode ? 1 : n));
  slot->prompt_n = slot->length();
  slot->priority = 0;
  slot->probe = std::make_unique<Probe>(std::move(probe));
  if (slot->probe->positions.empty()) slot->finish = wire::FinishReason::kLength;
  return {};
}

void ModelEngine::set_prefill_chunk(std::int32_t tokens, std::int32_t tokens_busy) {
  CHECK(tokens > 0 && tokens_busy > 0);
  CHECK(std::max(tokens, tokens_busy) <= chunk_max_);
  config_.prefill_chunk = tokens;
  config_.prefill_chunk_busy = tokens_busy;
}

void ModelEngine::release(Slot& slot) {
  give_pages(slot);
  slot.tokens.clear();
  slot.drafter.restart();
  slot.state = State::kFree;
  slot.stop_condition = StopCondition();
  slot.grammar.reset();
  slot.matcher.reset();
  slot.thinking.reset();
  slot.finishes = false;
  slot.generated_max = 0;
  slot.prefill_heavy = false;
  slot.prefix = PrefixRoot();
  slot.cached = Slot::kNotLookedUp;
  slot.sampling = wire::Sampling();
  slot.extra = SamplingExtra();
  slot.banned.reset();
  slot.tail.clear();
  slot.breakers.reset();
  slot.replayed.clear();
  slot.replayed_n = 0;
  slot.probe.reset();
  slot.pooler.reset();
  slot.scores.reset();
  slot.probe_next = 0;
  slot.prompt_n = 0;
  slot.choice = 0;
  slot.paused = false;
  slot.finish = wire::FinishReason::kNone;
}

void ModelEngine::cancel(SequenceKey key) {
  if (Slot* slot = find(key)) release(*slot);
}

void ModelEngine::cancel_all() {
  for (Slot& slot : slots_) {
    if (slot.state != State::kFree) release(slot);
  }
}

void ModelEngine::pause(SequenceKey key, bool paused) {
  if (Slot* slot = find(key)) slot->paused = paused;
}

bool ModelEngine::idle() const {
  return std::all_of(slots_.begin(), slots_.end(), [](const Slot& s) {
    return s.state == State::kFree || (s.paused && s.finish == wire::FinishReason::kNone);
  });
}

Usage ModelEngine::usage() const {
  Usage u = usage_;
  u.running = static_cast<std::int32_t>(std::count_if(
      slots_.begin(), slots_.end(), [](const Slot& s) { return s.state != State::kFree; }));
  u.pages_used = pool_.total() - available();  // what the cache alone holds can be evicted
  u.allocations += executor_->allocations();
  u.barriers = executor_->barriers();
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
  for (Slot& slot : slots_) {
    if (slot.state == State::kFree || slot.finish == wire::FinishReason::kNone) continue;
    Produced p;
    p.key = slot.key;
    p.start = slot.generated();
    p.finish = slot.finish;
    produced_.push_back(std::move(p));
    release(slot);
  }
}

const std::vector<Produced>& ModelEngine::step() {
  produced_.clear();
  if (device_error_) return lose_device(Error(*device_error_)), produced_;
  produce_ended();
  const bool waits = take_grammars();
  plan();
  if (!planned_.empty()) {
    const std::int64_t start_us = config_.clock->monotonic_us();
    run();
    step_time_model_.learn(work_, config_.clock->monotonic_us() - start_us);
  } else if (waits && produced_.empty()) {
    grammars_->wait();  // nothing else is to be done
  }
  return produced_;
}

/// Runs all segments in one forward. If it fails, runs each one alone: a sequence whose numbers
/// went wrong must not take its neighbours with it (what they wrote is written again, bit for bit).
void ModelEngine::run() {
  ++usage_.steps;
  auto all = executor_->forward(segments_);
  // A draft may lead where the text never goes, and where numbers are no longer finite. The states
  // of the other sequences have moved on; that of the sequence with the draft has not.
  if (!all.has_value() && all.error().code != Errc::kModelFailed && drop_drafts() &&
      (!config_.recurrent || planned_.size() == 1)) {
    all = executor_->forward(segments_);
  }
  if (all.has_value()) {
    sample_in_parallel(*all);
    return collect_all(*all);
  }
  if (all.error().code == Errc::kModelFailed) return lose_device(all.error());
  if (planned_.size() == 1) {
    drop_snapshot(planned_[0]);
    return fail(*planned_[0].slot, all.error());
  }
  for (const Planned& planned : planned_) {
    if (!device_error_) run_alone(planned);
  }
}

/// Computes everything before the segment once more, as the forward that failed has moved the state
/// on.
Result<void> ModelEngine::restore_state(const Planned& planned) {
  backend::Segment before = planned.segment;
  before.n_logits = before.top = 0;
  before.best = before.deferred_logits = before.hidden = false;
  before.from = before.snapshot_state = -1;
  before.snapshot_after = 0;
  for (std::int64_t at = 0; at < planned.segment.start; at += before.n) {
    before.tokens = planned.slot->tokens.data() + at;
    before.start = at;
    before.n =
        static_cast<std::int32_t>(std::min<std::int64_t>(chunk_max_, planned.segment.start - at));
    single_.assign(1, before);
    HOLDFAST_CHECKED(executor_->forward(single_));
  }
  return {};
}

void ModelEngine::run_alone(const Planned& planned) {
  Result<const float*> one = static_cast<const float*>(nullptr);
  const Result<void> restored = config_.recurrent ? restore_state(planned) : Result<void>{};
  single_.assign(1, planned.segment);
  if (config_.recurrent) single_[0].from = -1;
  if (restored.has_value()) {
    one = executor_->forward(single_);
  } else {
    one = restored.error();
  }
  if (one.has_value()) return collect(planned, *one, 0, 0);
  if (one.error().code == Errc::kModelFailed) return lose_device(one.error());
  drop_snapshot(planned);
  fail(*planned.slot, one.error());
}

/// Collects sequences with rows of this forward first, then those that request more rows, which
/// overwrite these.
void ModelEngine::collect_all(const float* rows) {
  for (const bool scores : {false, true}) {
    std::int32_t row = 0, first = 0;
    for (const Planned& planned : planned_) {
      if (planned.scores == scores && !device_error_) collect(planned, rows, row, first);
      first += planned.segment.n;
      row += planned.segment.n_logits;
    }
  }
}

/// Takes in one segment. `row`, `first`: its first row of the logits and first token of the batch.
void ModelEngine::collect(const Planned& planned, const float* rows, std::int32_t row,
                          std::int32_t first) {
  Slot& slot = *planned.slot;
  const backend::Segment& segment = planned.segment;
  if (slot.pending() > 1 || slot.generated() == 0) {
    usage_.prefill_tokens += static_cast<std::uint64_t>(segment.n);
  }
  slot.computed = segment.start + segment.n - planned.drafts;
  slot.state_lag = 0;
  if (config_.recurrent && planned.drafts > 0) std::swap(slot.at, spare_before_);
  if (slot.from >= 0) cache_.unpin(std::exchange(slot.from, -1));
  if (slot.pooler) return advance_embedding(slot, segment, first);
  if (slot.probe) return advance_probe(slot, segment, row_at(rows, row).at);
  insert_prefix(slot);
  if (planned.caches_snapshot()) insert_snapshot(planned);
  if (config_.recurrent) forget_marks(slot);
  if (slot.scores) return advance_scores(slot, segment, first);
  if (slot.pending() == 0) sample_row(planned, rows, row);
  if (planned.drafts > 0) verify_drafts(planned, rows, row);
}

/// Goes on over the rows after draft tokens as long as those are what was sampled.
void ModelEngine::verify_drafts(const Planned& planned, const float* rows, std::int32_t row) {
  Slot& slot = *planned.slot;
  const SequenceKey key = slot.key;
  const TokenId* draft_tokens = planned.segment.tokens + planned.segment.n - planned.drafts;
  std::int32_t accepted = 0;
  while (accepted < planned.drafts && slot.state == State::kRunning && slot.key == key &&
         slot.tokens.back() == draft_tokens[accepted]) {
    ++accepted;
    ++slot.computed;
    insert_prefix(slot);
    sample_row(planned, rows, row + accepted);
  }
  usage_.drafts += static_cast<std::uint64_t>(planned.drafts);
  usage_.drafts_accepted += static_cast<std::uint64_t>(accepted);
  if (slot.state != State::kRunning || slot.key != key) return;
  slot.drafter.learn(planned.drafts, accepted);
  if (!config_.recurrent) return;
  if (accepted == planned.drafts) {
    std::swap(slot.at, spare_after_);
  } else {
    slot.state_lag = accepted;
  }
}

LogitRow ModelEngine::row_at(const float* rows, std::int32_t row) const {
  return {rows + static_cast<std::int64_t>(row) * config_.vocab, executor_->maxima(row)};
}

void ModelEngine::sample_row(const Planned& planned, const float* rows, std::int32_t row) {
  if (planned.segment.best) return produce(*planned.slot, executor_->best(row), nullptr);
  if (planned.segment.top > 0) return sample_top(*planned.slot, planned.segment.top, row);
  sample(*planned.slot, row_at(rows, row), &planned);
}

/// Samples from the first `n` of the row's total order.
void ModelEngine::sample_top(Slot& slot, std::int32_t n, std::int32_t row) {
  const backend::Ranked* first = executor_->top(row);
  top_candidates_.clear();
  for (std::int32_t i = 0; i < n; ++i) top_candidates_.push_back({first[i].logit, first[i].id});
  SampleInput in;
  plain_input(slot, in);
  produce(slot, sampler_.sample_candidates(top_candidates_, in), nullptr);
}

/// Fails all sequences: no result of a lost device counts, and nothing is tried on it again.
void ModelEngine::lose_device(const Error& error) {
  device_error_ = error;
  for (Slot& slot : slots_) {
    if (slot.state != State::kFree) fail(slot, error);
  }
}

void ModelEngine::fail(Slot& slot, const Error& error) {
  Produced p;
  p.key = slot.key;
  p.start = slot.probe ? 0 : slot.generated();
  p.finish = wire::FinishReason::kError;
  p.error = error;
  produced_.push_back(std::move(p));
  release(slot);
}

/// Fills in what does not depend on the text so far.
void ModelEngine::plain_input(Slot& slot, SampleInput& in) {
  in.sampling = &slot.sampling;
  in.extra = &slot.extra;
  in.choice = slot.choice;
  in.tokens = slot.tokens.data();
  in.prompt_n = slot.prompt_n;
  in.generated_n = slot.generated();
  in.mirostat_mu = &slot.mu;
  if (slot.breakers) in.breakers = *slot.breakers;
}

/// Fills in everything. False if the grammar gives no mask.
bool ModelEngine::fill_input(Slot& slot, SampleInput& in) {
  plain_input(slot, in);
  if (slot.banned) {
    excluded_.clear();
    slot.banned->after(slot.tail, excluded_);
    in.excluded = excluded_;
  }
  if (slot.matcher) {
    in.mask = mask_;
    if (!slot.matcher->fill_mask(mask_)) return false;
    in.only_end = slot.matcher->must_end();
  }
  if (slot.thinking) force(slot, in);
  return true;
}

/// Allows only the token that ends the reasoning, if it is due and nothing else forbids it.
void ModelEngine::force(const Slot& slot, SampleInput& in) {
  const TokenId id = slot.thinking->forced();
  if (id < 0) return;
  const auto word = static_cast<std::size_t>(id) / 64;
  const std::uint64_t bit = std::uint64_t{1} << (static_cast<std::size_t>(id) % 64);
  const bool allowed = in.mask.empty() || (word < in.mask.size() && (in.mask[word] & bit) != 0);
  if (!allowed || std::find(in.excluded.begin(), in.excluded.end(), id) != in.excluded.end()) {
    return;
  }
  std::fill(mask_.begin(), mask_.end(), 0);
  mask_[word] = bit;
  in.mask = mask_;
  in.only_end = false;
}

/// Returns `sampled` if enough tokens are left after it to complete the text. Else a token of a
/// single byte for which that holds: where it held so far there is one, as a byte of the shortest
/// way leaves one byte less to go and costs one token. `sampled` again where it never held.
std::optional<TokenId> ModelEngine::in_time(Slot& slot, const LogitRow& row, SampleInput& in,
                                            TokenId sampled) {
  const std::int64_t left = slot.generated_max - slot.generated() - 1;
  if (slot.matcher->ends_within(sampled, left)) return sampled;
  bool any = false;
  bool only_end = true;
  for (std::size_t word = 0; word < mask_.size(); ++word) {
    short_mask_[word] = 0;
    for (std::uint64_t rest = mask_[word]; rest != 0; rest &= rest - 1) {
      const TokenId id = static_cast<TokenId>(word * 64) + __builtin_ctzll(rest);
      const bool is_end = table_->is_end(id);
      const bool is_short = is_end || table_->bytes(id).size() == 1;
      const bool excluded =
          std::find(in.excluded.begin(), in.excluded.end(), id) != in.excluded.end();
      if (!is_short || excluded || !slot.matcher->ends_within(id, left)) continue;
      short_mask_[word] |= rest & -rest;
      any = true;
      only_end = only_end && is_end;
    }
  }
  if (!any) return sampled;
  in.mask = short_mask_;
  in.only_end = only_end;
  return sampler_.sample(row, in);
}

/// Samples the next token from `row`; `planned` may have sampled it in parallel from the same row.
void ModelEngine::sample(Slot& slot, const LogitRow& row, const Planned* planned) {
  SampleInput in;
  if (!fill_input(slot, in)) return fail(slot, grammar_error(slot.generated()));
  const bool replays = slot.replayed_n < slot.replayed.size();
  if (replays) in.forced = slot.replayed[slot.replayed_n];
  const bool is_sampled = planned != nullptr && planned->sampled_from.at == row.at;
  std::optional<TokenId> id = is_sampled ? planned->sampled : sampler_.sample(row, in);
  if (id.has_value() && slot.finishes) id = in_time(slot, row, in, *id);
  if (!id.has_value()) {
    const std::string at = "sample token " + std::to_string(slot.generated());
    return fail(slot, all_finite(row.at, config_.vocab)
                          ? Error{Errc::kUnsupported,
                                  at + ": the banned strings leave no token that may come"}
                          : Error{Errc::kNumericsNan, at + ": a logit is not finite"});
  }
  if (replays) id = in.forced;
  if (slot.matcher && !slot.matcher->accept(*id)) {
    return fail(slot, grammar_error(slot.generated()));
  }
  append_tail(slot, *id);
  if (replays) {
    if (slot.thinking) slot.thinking->feed(*id);
    slot.tokens.push_back(*id);
    ++slot.replayed_n;
    return;
  }
  produce(slot, *id, &row);
}

/// Reports the next token of a sequence. `row`: its logits, or null where no logprobs are reported.
void ModelEngine::produce(Slot& slot, TokenId id, const LogitRow* row) {
  Produced p;
  p.key = slot.key;
  p.start = slot.generated();
  p.ids.push_back(id);
  if (slot.cached >= 0) p.cached_tokens = std::exchange(slot.cached, Slot::kCachedTold);
  if (slot.sampling.logprobs >= 0) {
    p.extra.push_back(sampler_.logprobs_json(*row, id, slot.sampling.logprobs));
  }
  if (slot.scores) p.extra = {scores_into(slot, p.extra.empty() ? "" : std::move(p.extra[0]))};
  p.finish = slot.stop_condition.feed(id);
  if (slot.thinking) slot.thinking->feed(id);
  ++usage_.tokens;
  CHECK(slot.tokens.size() < slot.tokens.capacity());  // the stop condition knows the context
  slot.tokens.push_back(id);
  const bool ended = p.finish != wire::FinishReason::kNone;
  produced_.push_back(std::move(p));
  if (ended) release(slot);
}

void ModelEngine::advance_probe(Slot& slot, const backend::Segment& segment, const float* rows) {
  Probe& probe = *slot.probe;
  const std::int64_t first = slot.computed - segment.n_logits;  // position of rows[0]
  while (slot.probe_next < probe.positions.size() &&
         probe.positions[slot.probe_next] < slot.computed) {
    const std::int64_t row = probe.positions[slot.probe_next] - first;
    CHECK(row >= 0);
    probe.sink(slot.probe_next, rows + row * config_.vocab);
    ++slot.probe_next;
  }
  if (slot.probe_next == probe.positions.size()) {
    Produced p;
    p.key = slot.key;
    p.finish = wire::FinishReason::kLength;
    produced_.push_back(std::move(p));
    return release(slot);
  }
  if (probe.decode && slot.pending() == 0) {
    slot.tokens.push_back(probe.tokens[static_cast<std::size_t>(slot.computed)]);
  }
}

}  // namespace holdfast::engine
