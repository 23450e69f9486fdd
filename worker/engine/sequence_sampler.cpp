#include "worker/engine/sequence_sampler.h"

#include <algorithm>
#include <utility>

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

Error no_tokenizer_error(SequenceKey key, const std::string& what) {
  return {Errc::kUnsupported, key_text(key) + what + " a tokenizer"};
}

Error grammar_error(std::int64_t index) {
  return {Errc::kUnsupported, "sample token " + std::to_string(index) +
                                  ": the grammar is too ambiguous; write it with fewer ways to "
                                  "read one text"};
}

}  // namespace

SequenceSampler::SequenceSampler(const ModelEngineConfig& config,
                                 std::shared_ptr<const grammar::TokenTable> table,
                                 backend::Executor& executor, StepResults& results)
    : config_(config),
      executor_(executor),
      results_(results),
      sampler_(config.vocab, end_ids(config.vocabulary, config.vocab)) {
  sampled_in_parallel_.reserve(static_cast<std::size_t>(config.slots));
  const int samplers = std::min({executor.capabilities().workers, config.slots, kSamplersMost});
  for (int i = 1; i < samplers; ++i) {
    worker_samplers_.emplace_back(config.vocab, end_ids(config.vocabulary, config.vocab));
  }
  if (!config.vocabulary.tokenizer) return;
  table_ = std::move(table);
  if (!table_) table_ = grammar::TokenTable::make(*config.vocabulary.tokenizer);
  mask_.resize(table_->mask_words());
  short_mask_.resize(table_->mask_words());
  GrammarCompile compile = config.compile_grammar;
  if (!compile) compile = [](const auto& request) { return grammar::compile(request); };
  grammars_ = std::make_unique<GrammarLoader>(table_, std::move(compile));
}

Result<SamplingRequest> SequenceSampler::check(const SequenceSpec& spec,
                                               SamplingExtra extra) const {
  SamplingRequest request;
  if (!extra.banned_strings.empty() && !table_) {
    return no_tokenizer_error(spec.key, "banned strings need");
  }
  HOLDFAST_TRY(request.grammar, grammar::read_extra(spec.sampling.extra));
  if (request.grammar && !grammars_) return no_tokenizer_error(spec.key, "a grammar needs");
  if (extra.thinking) {
    const auto& tokenizer = config_.vocabulary.tokenizer;
    if (!tokenizer) return no_tokenizer_error(spec.key, "a thinking budget needs");
    HOLDFAST_TRY(request.thinking, ThinkingBound::make(*extra.thinking, *tokenizer));
  }
  request.extra = std::move(extra);
  return request;
}

void SequenceSampler::start(Slot& slot, SequenceSpec spec, SamplingRequest request) {
  SamplingState& state = slot.sampling;
  state.extra = std::move(request.extra);
  state.thinking = std::move(request.thinking);
  state.choice = spec.choice;
  state.mu = first_mu(state.extra);
  if (request.grammar) {
    state.finishes = request.grammar->finish && state.extra.mirostat == 0;  // ingress refuses both
    state.grammar = grammars_->start(*request.grammar);
  }
  // After a complete text nothing is allowed but an end token, so that is the end.
  slot.finish = begin_stops(slot, spec, spec.sampling.ignore_eos && !request.grammar);
  prepare_banned(state);
  prepare_breakers(state);
  take_committed(slot, std::move(spec.committed));
  state.parameters = std::move(spec.sampling);
}

/// Starts the stop condition. Returns how the choice has ended with what was committed.
wire::FinishReason SequenceSampler::begin_stops(Slot& slot, SequenceSpec& spec, bool ignore_eos) {
  StopCondition& stops = slot.sampling.stop_condition;
  stops = StopCondition(&config_.vocabulary, std::move(spec.stops), slot.generated_max, ignore_eos);
  wire::FinishReason finish = wants_scores(spec) ? wire::FinishReason::kNone : stops.start();
  for (const TokenId id : spec.committed) {
    if (finish != wire::FinishReason::kNone) break;
    finish = stops.feed(id);
  }
  return finish;
}

/// Puts the committed tokens after the prompt, or lets them be replayed.
void SequenceSampler::take_committed(Slot& slot, std::vector<TokenId> committed) {
  SamplingState& state = slot.sampling;
  if (state.extra.mirostat != 0) {  // its state depends on the logits of every token
    state.replayed = std::move(committed);
    return;
  }
  for (const TokenId id : committed) {
    append_tail(state, id);
    if (state.thinking) state.thinking->feed(id);
  }
  slot.tokens.insert(slot.tokens.end(), committed.begin(), committed.end());
}

void SequenceSampler::prepare_banned(SamplingState& state) {
  const std::vector<std::string>& texts = state.extra.banned_strings;
  if (texts.empty()) return;
  if (!last_banned_ || last_banned_->texts() != texts) {
    last_banned_ = std::make_shared<const BannedTexts>(table_, texts);
  }
  state.banned = last_banned_;
}

void SequenceSampler::prepare_breakers(SamplingState& state) {
  const std::vector<std::string>& texts = state.extra.dry_sequence_breakers;
  if (state.extra.dry_multiplier <= 0 || !table_) return;
  if (!last_breakers_ || last_breakers_text_ != texts) {
    last_breakers_text_ = texts;
    last_breakers_ = std::make_shared<const std::vector<TokenId>>(breaker_tokens(*table_, texts));
  }
  state.breakers = last_breakers_;
}

/// Makes the grammar's state after the committed ids (before them if they are replayed).
Result<void> SequenceSampler::make_matcher(Slot& slot, const Result<GrammarLoader::Masks>& masks) {
  if (!masks) return masks.error();
  slot.sampling.matcher = std::make_unique<grammar::Matcher>(*masks);
  for (std::int64_t i = slot.prompt_n; i < slot.length(); ++i) {
    if (slot.sampling.matcher->accept(slot.tokens[static_cast<std::size_t>(i)])) continue;
    return Error{Errc::kInvalidRequest, key_text(slot.key) + "committed token " +
                                            std::to_string(i - slot.prompt_n) +
                                            " is not of its grammar"};
  }
  return {};
}

bool SequenceSampler::take_grammars(std::span<Slot> slots) {
  bool waits = false;
  for (Slot& slot : slots) {
    if (slot.sampling.grammar == nullptr) continue;
    const Result<GrammarLoader::Masks>* masks = grammars_->result(*slot.sampling.grammar);
    if (masks == nullptr) {
      waits = true;
      continue;
    }
    const Result<void> made = make_matcher(slot, *masks);
    slot.sampling.grammar.reset();
    if (!made) results_.fail(slot, made.error());
  }
  return waits;
}

void SequenceSampler::append_tail(SamplingState& state, TokenId id) {
  if (!state.banned) return;
  state.tail += table_->bytes(id);
  const std::size_t limit = state.banned->tail_bytes();
  if (state.tail.size() > limit) state.tail.erase(0, state.tail.size() - limit);
}

backend::Wants SequenceSampler::wants(const Slot& slot, std::int32_t n) const {
  using backend::Wants;
  const SamplingState& state = slot.sampling;
  if (!slot.probe.is_none() || !state.is_unconstrained() || state.parameters.logprobs >= 0) {
    return Wants::logits(n);
  }
  const backend::Capabilities& can = executor_.capabilities();
  if (can.greatest && sampler_.takes_greatest(state.parameters, &state.extra, slot.generated())) {
    return Wants::greatest(n);
  }
  const std::int32_t top =
      sampler_.candidate_count(state.parameters, &state.extra, slot.generated());
  return top > 0 && top <= can.top_max ? Wants::top(top, n) : Wants::logits(n);
}

void SequenceSampler::sample_row(const Planned& planned, const backend::StepResult& result,
                                 std::int32_t row) {
  switch (planned.segment.wants.top_count()) {
    case backend::Wants::kGreatest:
      return produce(*planned.slot, result.greatest(row), nullptr);
    case backend::Wants::kWholeRow:
      return sample(*planned.slot, result.logits(row), &planned);
    default:
      return sample_top(*planned.slot, result.top(row));
  }
}

/// Samples from the first of a row's total order.
void SequenceSampler::sample_top(Slot& slot, std::span<const backend::Ranked> top) {
  top_candidates_.clear();
  for (const backend::Ranked& one : top) top_candidates_.push_back({one.logit, one.id});
  SampleInput in;
  plain_input(slot, in);
  produce(slot, sampler_.sample_candidates(top_candidates_, in), nullptr);
}

/// Fills in what does not depend on the text so far.
void SequenceSampler::plain_input(Slot& slot, SampleInput& in) {
  SamplingState& state = slot.sampling;
  in.sampling = &state.parameters;
  in.extra = &state.extra;
  in.choice = state.choice;
  in.tokens = slot.tokens.data();
  in.prompt_n = slot.prompt_n;
  in.generated_n = slot.generated();
  in.mirostat_mu = &state.mu;
  if (state.breakers) in.breakers = *state.breakers;
}

/// Fills in everything. False if the grammar gives no mask.
bool SequenceSampler::fill_input(Slot& slot, SampleInput& in) {
  SamplingState& state = slot.sampling;
  plain_input(slot, in);
  if (state.banned) {
    excluded_.clear();
    state.banned->after(state.tail, excluded_);
    in.excluded = excluded_;
  }
  if (state.matcher) {
    in.mask = mask_;
    if (!state.matcher->fill_mask(mask_)) return false;
    in.only_end = state.matcher->must_end();
  }
  if (state.thinking) force(state.thinking->forced(), in);
  return true;
}

/// Allows only the token that ends the reasoning, if it is due and nothing else forbids it.
void SequenceSampler::force(TokenId id, SampleInput& in) {
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
std::optional<TokenId> SequenceSampler::in_time(Slot& slot, const LogitRow& row, SampleInput& in,
                                                TokenId sampled) {
  grammar::Matcher& matcher = *slot.sampling.matcher;
  const std::int64_t left = slot.generated_max - slot.generated() - 1;
  if (matcher.ends_within(sampled, left)) return sampled;
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
      if (!is_short || excluded || !matcher.ends_within(id, left)) continue;
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

/// Says why a row gave no token.
Error SequenceSampler::no_token_error(const Slot& slot, const LogitRow& row) const {
  const std::string at = "sample token " + std::to_string(slot.generated());
  if (!all_finite(row.at, config_.vocab)) {
    return {Errc::kNumericsNan, at + ": a logit is not finite"};
  }
  return {Errc::kUnsupported, at + ": the banned strings leave no token that may come"};
}

/// Samples from `row` as `in` says, or takes what was sampled in parallel.
std::optional<TokenId> SequenceSampler::sample_next(Slot& slot, const LogitRow& row,
                                                    SampleInput& in, const Planned* planned) {
  const bool is_sampled = planned != nullptr && planned->sampled_from.at == row.at;
  const std::optional<TokenId> id = is_sampled ? planned->sampled : sampler_.sample(row, in);
  return id.has_value() && slot.sampling.finishes ? in_time(slot, row, in, *id) : id;
}

void SequenceSampler::sample(Slot& slot, const LogitRow& row, const Planned* planned) {
  SamplingState& state = slot.sampling;
  SampleInput in;
  if (!fill_input(slot, in)) return results_.fail(slot, grammar_error(slot.generated()));
  const bool replays = state.replays();
  if (replays) in.forced = state.replayed[state.replayed_n];
  std::optional<TokenId> id = sample_next(slot, row, in, planned);
  if (!id.has_value()) return results_.fail(slot, no_token_error(slot, row));
  if (replays) id = in.forced;
  if (state.matcher && !state.matcher->accept(*id)) {
    return results_.fail(slot, grammar_error(slot.generated()));
  }
  append_tail(state, *id);
  replays ? replay(slot, *id) : produce(slot, *id, &row);
}

/// Appends a token that was reported before.
void SequenceSampler::replay(Slot& slot, TokenId id) {
  if (slot.sampling.thinking) slot.sampling.thinking->feed(id);
  slot.tokens.push_back(id);
  ++slot.sampling.replayed_n;
}

/// Reports the next token of a sequence. `row`: its logits, or null where no logprobs are reported.
void SequenceSampler::produce(Slot& slot, TokenId id, const LogitRow* row) {
  SamplingState& state = slot.sampling;
  Produced p;
  p.key = slot.key;
  p.start = slot.generated();
  p.ids.push_back(id);
  if (slot.prefix.cached >= 0) {
    p.cached_tokens = std::exchange(slot.prefix.cached, PrefixState::kCachedTold);
  }
  if (state.parameters.logprobs >= 0) {
    p.extra.push_back(sampler_.logprobs_json(*row, id, state.parameters.logprobs));
  }
  if (slot.probe.scores) {
    std::string extra = p.extra.empty() ? "" : std::move(p.extra[0]);
    p.extra = {slot.probe.take_scores(slot.prompt(), std::move(extra))};
  }
  p.finish = state.stop_condition.feed(id);
  if (state.thinking) state.thinking->feed(id);
  ++results_.usage().tokens;
  CHECK(slot.tokens.size() < slot.tokens.capacity());  // the stop condition knows the context
  slot.tokens.push_back(id);
  const bool ended = p.finish != wire::FinishReason::kNone;
  ended ? results_.end(slot, std::move(p)) : results_.report(std::move(p));
}

}  // namespace holdfast::engine
