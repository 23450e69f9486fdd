// The fake engine: real sequences, slots, pages and endings, no model. For tests and load runs of
// everything around an engine.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "shared/base/clock.h"
#include "shared/base/log.h"
#include "shared/base/progress.h"
#include "shared/base/token_stamp.h"
#include "shared/grammar/request.h"
#include "shared/huggingface/folder.h"
#include "shared/plan/plan.h"
#include "shared/sampling/extra.h"
#include "shared/wire/prompt_scores.h"
#include "worker/engine/engine.h"
#include "worker/engine/fake_options.h"
#include "worker/engine/philox.h"
#include "worker/engine/stop_condition.h"
#include "worker/engine/thinking.h"

namespace holdfast::engine {

namespace {

void pause_for(double us) {
  constexpr double kSliceUs = 100'000;  // longer steps report progress in between
  for (; us > kSliceUs; us -= kSliceUs) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(kSliceUs));
    note_progress();
  }
  if (us > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us));
}

/// One step of a rolling hash (splitmix64's mixer).
std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  std::uint64_t z = (h ^ v) + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

struct FakeSequence {
  SequenceSpec spec;
  StopCondition stop_condition;
  std::optional<ThinkingBound> thinking;
  std::uint64_t hash = 0;   // of prompt and generated ids
  std::int64_t length = 0;  // prompt and generated
  std::int64_t generated = 0;
  std::int64_t computed = 0;  // of `length`; the difference is prefilled
  std::uint64_t age = 0;
  bool paused = false;
  bool embeds = false;                         // ends with a vector of its hash
  const std::vector<TokenId>* said = nullptr;  // the script's answer to it
  wire::FinishReason finish = wire::FinishReason::kNone;
};

class FakeEngine final : public Engine {
 public:
  FakeEngine(FakeOptions options, Vocabulary vocabulary, FakeScript script, std::string sha,
             double speed)
      : options_(std::move(options)),
        vocabulary_(std::move(vocabulary)),
        script_(std::move(script)),
        sha_(std::move(sha)),
        speed_(speed) {
    sequences_.reserve(static_cast<std::size_t>(options_.slots));
    usage_.pages_total = options_.pages;
  }

  Result<void> add(SequenceSpec spec) override {
    HOLDFAST_CHECKED(
        check_spec(spec, vocabulary_, options_.vocab, options_.context, options_.pages));
    HOLDFAST_TRY(const auto extra, sampling::parse_extra(spec.sampling.extra, options_.vocab));
    HOLDFAST_TRY(const auto grammar, grammar::read_extra(spec.sampling.extra));
    if (grammar && script_.empty()) {
      return Error{Errc::kUnsupported, "add sequence: the fake engine knows no grammars"};
    }
    if (find(spec.key) != nullptr) {
      return Error{Errc::kConflict, "add sequence " + std::to_string(spec.key) + ": key in use"};
    }
    if (static_cast<std::int32_t>(sequences_.size()) >= options_.slots) {
      return Error{Errc::kRateLimited, "add sequence " + std::to_string(spec.key) + ": all " +
                                           std::to_string(options_.slots) + " slots are taken"};
    }
    FakeSequence s;
    if (extra.thinking && vocabulary_.tokenizer) {  // hash tokens have no reasoning to bound
      HOLDFAST_TRY(s.thinking, ThinkingBound::make(*extra.thinking, *vocabulary_.tokenizer));
    }
    s.stop_condition = StopCondition(
        &vocabulary_, spec.stops, generated_max(spec, options_.context), spec.sampling.ignore_eos);
    s.finish = wants_scores(spec) ? wire::FinishReason::kNone : s.stop_condition.start();
    s.age = ++ages_;
    s.embeds = extra.embedding.has_value();
    if (!script_.empty() && !s.embeds && spec.max_tokens > 0) {
      HOLDFAST_TRY(s.said, script_.answer(spec.prompt, *vocabulary_.tokenizer));
    }
    if (s.embeds && !spec.committed.empty()) s.finish = wire::FinishReason::kStop;
    for (const TokenId id : spec.prompt) s.hash = mix(s.hash, static_cast<std::uint64_t>(id));
    for (const TokenId id : spec.committed) {
      s.hash = mix(s.hash, static_cast<std::uint64_t>(id));
      if (s.finish == wire::FinishReason::kNone) s.finish = s.stop_condition.feed(id);
      if (s.thinking) s.thinking->feed(id);
    }
    s.generated = static_cast<std::int64_t>(spec.committed.size());
    s.length = s.generated + static_cast<std::int64_t>(spec.prompt.size());
    s.spec = std::move(spec);
    sequences_.push_back(std::move(s));
    return {};
  }

  void cancel(SequenceKey key) override {
    std::erase_if(sequences_, [&](const FakeSequence& s) { return s.spec.key == key; });
  }

  void pause(SequenceKey key, bool paused) override {
    if (FakeSequence* s = find(key)) s->paused = paused;
  }

  const std::vector<Produced>& step() override;

  bool idle() const override {
    return std::all_of(sequences_.begin(), sequences_.end(), [](const FakeSequence& s) {
      return s.paused && s.finish == wire::FinishReason::kNone;
    });
  }

  Usage usage() const override {
    Usage u = usage_;
    u.running = static_cast<std::int32_t>(sequences_.size());
    for (const FakeSequence& s : sequences_) u.pages_used += pages_for(s.computed);
    return u;
  }

  wire::LoadedModel describe() const override {
    wire::LoadedModel m;
    m.model_sha = sha_;
    const std::string script_class = script_.empty() ? "hash/r1" : "script/" + script_.name();
    m.numerics_class = "fake/" + script_class + "/" + (sha_.empty() ? "-" : sha_) + "/none/single";
    m.state = "ready";
    m.slots = options_.slots;
    m.pages_total = options_.pages;
    m.page_tokens = plan::kPageTokens;
    m.context = options_.context;
    m.memory.weights = options_.memory_bytes;
    m.memory.taken = options_.memory_bytes > 0 ? options_.memory_bytes : -1;  // nothing to measure
    m.progress = 1;
    return m;
  }

 private:
  FakeSequence* find(SequenceKey key) {
    for (FakeSequence& s : sequences_) {
      if (s.spec.key == key) return &s;
    }
    return nullptr;
  }
  void grant_pages();
  void sample(FakeSequence& s);
  TokenId token_of(const FakeSequence& s) const;
  std::vector<float> vector_of(const FakeSequence& s) const;
  wire::PromptScores scores_of(const FakeSequence& s) const;

  FakeOptions options_;
  Vocabulary vocabulary_;
  FakeScript script_;
  std::string sha_;
  double speed_;
  std::vector<FakeSequence> sequences_;
  std::vector<FakeSequence*> granted_;
  std::vector<Produced> produced_;
  std::uint64_t ages_ = 0;
  Usage usage_;
};

/// Gives pages to sequences in rank order (priority, then age); one that gets none loses what it
/// has.
void FakeEngine::grant_pages() {
  granted_.clear();
  std::vector<FakeSequence*> order;
  for (FakeSequence& s : sequences_) {
    if (s.finish == wire::FinishReason::kNone) order.push_back(&s);
  }
  std::sort(order.begin(), order.end(), [](const FakeSequence* a, const FakeSequence* b) {
    return std::pair(a->spec.priority, a->age) < std::pair(b->spec.priority, b->age);
  });
  std::int32_t left = options_.pages;
  for (FakeSequence* s : order) {
    if (s->paused && s->computed == 0) continue;  // holds nothing and wants nothing
    const std::int32_t needed = pages_for(s->length);
    if (needed <= left) {
      left -= needed;
      if (!s->paused) granted_.push_back(s);
    } else if (s->computed > 0) {
      s->computed = 0;
      ++usage_.preemptions;
    }
  }
}

TokenId FakeEngine::token_of(const FakeSequence& s) const {
  if (s.thinking && s.thinking->forced() >= 0) return s.thinking->forced();
  if (options_.stamp_ids) return stamp_id(system_clock().monotonic_us());
  if (s.said != nullptr) {
    const auto at = static_cast<std::size_t>(s.generated);
    return at < s.said->size() ? (*s.said)[at] : options_.eos;  // after an ignored end
  }
  const wire::Sampling& p = s.spec.sampling;
  const std::uint64_t bits =
      mix(s.hash, random_bits(p.seed, s.spec.choice, s.generated, RandomPurpose::kFake));
  const bool end_allowed = s.generated + 1 > p.min_tokens;
  if (options_.eos_every > 0 && end_allowed &&
      (bits >> 32) % static_cast<std::uint64_t>(options_.eos_every) == 0) {
    return options_.eos;
  }
  auto id = static_cast<TokenId>((bits & 0xffffffffu) % static_cast<std::uint64_t>(options_.vocab));
  while (vocabulary_.is_end(id)) id = (id + 1) % options_.vocab;  // ends only by eos_every
  return id;
}

/// A vector of length 1, the same for the same prompt.
std::vector<float> FakeEngine::vector_of(const FakeSequence& s) const {
  std::vector<float> vector;
  double squares = 0;
  for (std::uint64_t i = 0; i < 8; ++i) {
    vector.push_back(static_cast<float>(mix(s.hash, i) >> 40) - 8388608.0F);
    squares += static_cast<double>(vector.back()) * vector.back();
  }
  for (float& v : vector) v = static_cast<float>(v / std::sqrt(squares));
  return vector;
}

/// Scores, the same for the same prompt; a token's depend on the tokens up to it alone.
wire::PromptScores FakeEngine::scores_of(const FakeSequence& s) const {
  wire::PromptScores scores;
  scores.ids = s.spec.prompt;
  scores.top = std::min(s.spec.sampling.prompt_logprobs, options_.vocab);
  std::uint64_t hash = 0;
  const auto vocab = static_cast<std::uint64_t>(options_.vocab);
  for (std::size_t i = 0; i < scores.ids.size(); ++i) {
    hash = mix(hash, static_cast<std::uint64_t>(scores.ids[i]));
    if (i == 0) continue;
    const auto logprob = -static_cast<float>(hash % 1'000'000) / 65'536;
    scores.scores.push_back({logprob, static_cast<std::int32_t>(hash % vocab) + 1});
    for (std::int32_t k = 0; k < scores.top; ++k) {
      const auto id = static_cast<TokenId>((hash + static_cast<std::uint64_t>(k)) % vocab);
      scores.alternatives.push_back({id, -static_cast<float>(k + 1) / 8});
    }
  }
  return scores;
}

void FakeEngine::sample(FakeSequence& s) {
  const bool first = wants_scores(s.spec) && s.generated == 0;
  if (first && s.spec.max_tokens == 0) {
    Produced p;
    p.key = s.spec.key;
    p.ids.push_back(wire::kScoresToken);
    p.extra.push_back(wire::with_prompt_scores("", scores_of(s)));
    s.finish = p.finish = wire::FinishReason::kLength;
    produced_.push_back(std::move(p));
    return;
  }
  if (s.embeds) {
    Produced p;
    p.key = s.spec.key;
    p.start = s.generated;
    s.finish = p.finish = wire::FinishReason::kStop;
    p.embedding = vector_of(s);
    p.vectors = 1;
    produced_.push_back(std::move(p));
    return;
  }
  const TokenId id = token_of(s);
  if (id == options_.crash_on_token) commit_fault(options_.crash);
  Produced p;
  p.key = s.spec.key;
  p.start = s.generated;
  if (id == options_.nan_on_token) {
    s.finish = p.finish = wire::FinishReason::kError;
    p.error = {Errc::kNumericsNan, "sample token " + std::to_string(s.generated) +
                                       ": a logit is not finite (asked for by nan_on_token)"};
  } else {
    p.ids.push_back(id);
    s.finish = p.finish = s.stop_condition.feed(id);
    if (s.thinking) s.thinking->feed(id);
    if (s.spec.sampling.logprobs >= 0) p.extra.emplace_back("{\"logprob\":0,\"top\":[]}");
    if (first) {
      p.extra = {wire::with_prompt_scores(p.extra.empty() ? "" : p.extra[0], scores_of(s))};
    }
    s.hash = mix(s.hash, static_cast<std::uint64_t>(id));
    ++s.generated;
    ++s.length;
    ++usage_.tokens;
  }
  produced_.push_back(std::move(p));
}

const std::vector<Produced>& FakeEngine::step() {
  produced_.clear();
  for (const FakeSequence& s : sequences_) {  // ended by what was committed already
    if (s.finish == wire::FinishReason::kNone) continue;
    Produced p;
    p.key = s.spec.key;
    p.start = s.generated;
    p.finish = s.finish;
    produced_.push_back(std::move(p));
  }
  grant_pages();
  std::int64_t budget = options_.prefill_chunk;
  std::int64_t prefilled = 0;
  std::int64_t decoding = 0;
  std::int64_t context = 0;
  for (FakeSequence* s : granted_) {
    context += s->length;
    const std::int64_t pending = s->length - s->computed;
    if (pending > 1 || s->generated == 0) {
      if (s->computed == 0 && options_.crash_on_prompt_token >= 0 &&
          std::count(s->spec.prompt.begin(), s->spec.prompt.end(), options_.crash_on_prompt_token) >
              0) {
        commit_fault(options_.crash);
      }
      const std::int64_t n = std::min(pending, budget - prefilled);
      s->computed += n;
      prefilled += n;
    } else {
      s->computed += pending;
      ++decoding;
    }
  }
  if (!granted_.empty()) {
    // The step takes its time before its tokens can be seen.
    pause_for(static_cast<double>(options_.step_us + options_.step_us_per_sequence * decoding +
                                  options_.step_us_per_1k_context * context / 1000 +
                                  options_.prefill_us_per_token * prefilled) /
              speed_);
    if (static_cast<std::int64_t>(usage_.steps) + 1 == options_.crash_on_step) {
      commit_fault(options_.crash);
    }
    ++usage_.steps;
    usage_.prefill_tokens += static_cast<std::uint64_t>(prefilled);
  }
  for (FakeSequence* s : granted_) {
    if (s->computed == s->length) sample(*s);
  }
  std::erase_if(sequences_,
                [](const FakeSequence& s) { return s.finish != wire::FinishReason::kNone; });
  return produced_;
}

/// The number of loads that this process has begun, for the faults that hit the n-th of them.
std::atomic<std::int32_t> loads_so_far{0};

Result<void> load_weights(const FakeOptions& o, const FakeDevice& device,
                          const EngineOptions& options) {
  const std::int32_t load = loads_so_far.fetch_add(1) + 1;
  for (int i = 1; i <= 10 && o.load_ms > 0; ++i) {
    pause_for(static_cast<double>(o.load_ms) * 100 / device.speed);
    if (options.progress) options.progress(i / 10.0);
  }
  if (load == o.crash_on_load) commit_fault(o.crash);
  if (!o.fail_load.empty()) return Error{Errc::kModelFailed, "open fake engine: " + o.fail_load};
  if (load == o.fail_load_nth) {
    return Error{Errc::kModelFailed, "open fake engine: load " + std::to_string(load) +
                                         " of this process fails (fail_load_nth)"};
  }
  if (device.memory_bytes > 0 && o.memory_bytes > device.memory_bytes) {
    return Error{Errc::kMemoryExhausted, "open fake engine: " + std::to_string(o.memory_bytes) +
                                             " bytes needed, the device has " +
                                             std::to_string(device.memory_bytes)};
  }
  return {};
}

}  // namespace

std::int32_t fake_loads_so_far() {
  return loads_so_far.load();
}

Result<std::unique_ptr<Engine>> open_fake_engine(std::string_view options_json,
                                                 const EngineOptions& options,
                                                 const FakeDevice& device,
                                                 const std::string& model) {
  HOLDFAST_TRY(FakeOptions o, parse_fake_options(options_json, options));
  if (o.pages == 0) o.pages = o.slots * pages_for(o.context);
  if (o.vocab < 2 || o.slots < 1 || o.pages < 1 || o.context < 1 || o.prefill_chunk < 1) {
    return Error{Errc::kInvalidRequest,
                 "open fake engine: vocab, slots, pages, context, prefill_chunk must be positive"};
  }
  HOLDFAST_CHECKED(load_weights(o, device, options));
  Vocabulary vocabulary{nullptr, o.eos};
  FakeScript script;
  if (o.tokenizer.empty() && !o.script.empty()) o.tokenizer = model;
  if (!o.tokenizer.empty()) {
    HOLDFAST_TRY(const auto file,
                 huggingface::open_model(o.tokenizer, huggingface::Contents::kShapes));
    HOLDFAST_TRY(vocabulary.tokenizer, text::Tokenizer::load(*file));
    o.vocab = vocabulary.tokenizer->vocab_size();
    o.eos = vocabulary.tokenizer->eos();
  } else if (!o.script.empty()) {
    return Error{Errc::kInvalidRequest, "open fake engine: a script needs a tokenizer"};
  }
  if (!o.script.empty()) {
    HOLDFAST_TRY(script, FakeScript::make(o.script, *vocabulary.tokenizer));
  }
  return std::unique_ptr<Engine>(std::make_unique<FakeEngine>(
      std::move(o), std::move(vocabulary), std::move(script), options.model_sha, device.speed));
}

}  // namespace holdfast::engine
