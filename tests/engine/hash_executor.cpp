#include "tests/engine/hash_executor.h"

#include <algorithm>
#include <limits>
#include <map>
#include <thread>

#include "worker/engine/philox.h"
#include "worker/engine/row_passes.h"

namespace holdfast::engine {

namespace {

constexpr std::int64_t kPage = 64;
constexpr TokenId kPrefillHeavyOffset =
    1 << 20;  // added to the pages' tokens of a prefill-heavy sequence

constexpr std::uint64_t kNothing = 99;  // the hash of no tokens

std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  const auto r =
      philox4x32({static_cast<std::uint32_t>(v), static_cast<std::uint32_t>(v >> 32), 0, 0},
                 {static_cast<std::uint32_t>(h), static_cast<std::uint32_t>(h >> 32)});
  return (std::uint64_t{r[0]} << 32) | r[1];
}

class HashExecutor final : public backend::Executor {
 public:
  HashExecutor(const ModelEngineConfig& config, std::shared_ptr<HashLog> log)
      : limits_(limits_for(config, "f32")),
        vocab_(config.vocab),
        log_(std::move(log)),
        memory_(static_cast<std::size_t>(config.pages * kPage), -777),
        states_(static_cast<std::size_t>(limits_.states)),
        logits_(static_cast<std::size_t>(limits_.logit_rows * vocab_)) {}

  const backend::Capabilities& capabilities() const override { return log_->capabilities; }
  Result<const float*> forward(const std::vector<backend::Segment>& segments) override {
    check(segments);
    if (failed_ && log_->then) return Error{*log_->then, "forward: and again"};
    last_ = segments;
    for (const backend::Segment& s : segments) {
      for (std::int32_t i = 0; i < s.n; ++i) {
        cell(s, s.start + i) = s.tokens[i] + (s.prefill_heavy ? kPrefillHeavyOffset : 0);
      }
    }
    advance_states(segments);
    hidden_.clear();
    for (const backend::Segment& s : segments) {
      for (std::int64_t p = s.start; p < s.start + s.n; ++p) add_hidden(s, p);
    }
    std::size_t out = 0;
    best_.clear();
    top_.clear();
    for (const backend::Segment& s : segments) {
      const TokenId* requested = s.tokens + s.n - s.n_logits;
      if (std::find(requested, s.tokens + s.n, log_->error_after) != s.tokens + s.n) {
        failed_ = true;
        return Error{log_->error, "forward: segment is not finite"};
      }
      for (std::int64_t p = s.start + s.n - s.n_logits; p < s.start + s.n; ++p) {
        row(s, p, logits_.data() + out);
        if ((s.best || s.top > 0) && !all_finite(logits_.data() + out, vocab_)) {
          return Error{Errc::kNumericsNan, "forward: segment is not finite"};
        }
        CHECK(s.top <= log_->capabilities.top_max && (s.top == 0 || !s.best));
        top_.push_back(take_top(logits_.data() + out, s.top));
        best_.push_back(s.best ? take_best(logits_.data() + out) : -1);
        out += static_cast<std::size_t>(vocab_);
      }
    }
    find_maxima();
    return logits_.data();
  }
  Result<const float*> compute_deferred_logits(std::int32_t first, std::int32_t n) override {
    CHECK(n > 0 && n <= limits_.logit_rows);
    CHECK(std::any_of(last_.begin(), last_.end(), [](const auto& s) { return s.deferred_logits; }));
    std::fill(logits_.begin(), logits_.end(), -777.0f);  // forward's rows are gone
    std::int32_t given = 0;
    for (const backend::Segment& s : last_) {
      for (std::int32_t i = 0; i < s.n; ++i, --first) {
        if (first > 0 || given == n) continue;
        if (s.tokens[i] == log_->error_after) {
          return Error{log_->error, "more logits: segment is not finite"};
        }
        row(s, s.start + i, logits_.data() + given++ * vocab_);
      }
    }
    CHECK(given == n);
    find_maxima();
    return logits_.data();
  }
  const float* maxima(std::int32_t row) const override {
    if (!log_->tells_maxima) return nullptr;
    ++log_->maxima_calls;
    return maxima_.data() + row * backend::logit_blocks(static_cast<std::int32_t>(vocab_));
  }
  const float* hidden(std::int32_t i) const override { return hidden_.data() + i * kHashWidth; }
  backend::Memory memory() const override { return {1, 2, 3}; }
  std::int32_t best(std::int32_t row) const override {
    const std::int32_t id = best_[static_cast<std::size_t>(row)];
    CHECK_MSG(id >= 0, "nobody wanted the best of this row");
    return id;
  }
  const backend::Ranked* top(std::int32_t row) const override {
    CHECK_MSG(!top_[static_cast<std::size_t>(row)].empty(), "nobody wanted the first of this row");
    return top_[static_cast<std::size_t>(row)].data();
  }
  void on_workers(const std::function<void(int)>& work) override {
    ++log_->spread;
    std::vector<std::thread> others;
    for (int i = 1; i < log_->capabilities.workers; ++i) others.emplace_back(work, i);
    work(0);
    for (std::thread& other : others) other.join();
  }
  backend::ExecutorCounters counters() const override { return {0, 7}; }

 private:
  /// Adds the token, its position, and a sum over the prefix, all read back through the pages.
  void add_hidden(const backend::Segment& s, std::int64_t p) {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i <= p; ++i) sum = (sum * 31 + cell(s, i)) % 1009;
    const bool requested = s.wants_hidden(static_cast<std::int32_t>(p - s.start));
    for (const std::int64_t v : {std::int64_t{cell(s, p)}, p, sum}) {
      hidden_.push_back(requested ? static_cast<float>(v) / 7 : -777.0f);
    }
  }

  void find_maxima() {
    if (!log_->tells_maxima) return;
    maxima_.clear();
    for (auto row = logits_.begin(); row != logits_.end(); row += vocab_) {
      for (std::int64_t id = 0; id < vocab_; id += backend::kBlockIds) {
        const auto end = row + std::min<std::int64_t>(vocab_, id + backend::kBlockIds);
        maxima_.push_back(*std::max_element(row + id, end));
      }
    }
  }

  /// The id of the greatest logit; the row is gone then.
  TokenId take_best(float* row) {
    ++log_->best_rows;
    const auto id = static_cast<TokenId>(std::max_element(row, row + vocab_) - row);
    std::fill(row, row + vocab_, -777.0f);
    return id;
  }

  /// The first n of the total order; the row is gone then.
  std::vector<backend::Ranked> take_top(float* row, std::int32_t n) {
    if (n == 0) return {};
    ++log_->top_rows;
    std::vector<backend::Ranked> all;
    for (std::int32_t id = 0; id < vocab_; ++id) all.push_back({row[id], id});
    std::stable_sort(
        all.begin(), all.end(),
        [](const backend::Ranked& a, const backend::Ranked& b) { return a.logit > b.logit; });
    all.resize(static_cast<std::size_t>(n));
    std::fill(row, row + vocab_, -777.0f);
    return all;
  }

  TokenId& cell(const backend::Segment& s, std::int64_t position) {
    return memory_[static_cast<std::size_t>(s.pages[position / kPage] * kPage + position % kPage)];
  }
  void row(const backend::Segment& s, std::int64_t position, float* out) {
    std::uint64_t h = kNothing;
    for (std::int64_t p = 0; p <= position; ++p) h = mix(h, static_cast<std::uint64_t>(cell(s, p)));
    if (!states_.empty()) {  // the same, but carried on from step to step
      h = passed_[s.state][static_cast<std::size_t>(position - s.start)];
    }
    for (std::int32_t id = 0; id < vocab_; ++id) {
      out[id] = static_cast<float>(mix(h, static_cast<std::uint64_t>(id)) >> 54) * 0.01f;
    }
    const std::int64_t before = position + 1 - log_->period;
    if (log_->period > 0 && before >= 0 && h % 8 != 0)
      out[cell(s, before) % kPrefillHeavyOffset] = 100;
    if (cell(s, position) % kPrefillHeavyOffset == log_->nan_after)
      out[5] = std::numeric_limits<float>::quiet_NaN();
  }
  /// Moves each state on from where it is; CHECKs that its sequence is there too.
  void advance_states(const std::vector<backend::Segment>& segments) {
    passed_.clear();
    for (const backend::Segment& s : segments) {
      if (states_.empty()) continue;
      State& state = states_[static_cast<std::size_t>(s.state)];
      CHECK(s.from < 0 || s.start > 0);
      if (s.from >= 0) state = states_[static_cast<std::size_t>(s.from)];
      if (s.start == 0) state = {};
      CHECK_MSG(state.at == s.start, "a state is not where its sequence is");
      CHECK_MSG(passed_.count(s.state) == 0, "two segments have one state");
      for (std::int32_t i = 0; i < s.n; ++i) {
        state.hash = mix(state.hash, static_cast<std::uint64_t>(cell(s, s.start + i)));
        passed_[s.state].push_back(state.hash);
      }
      state.at = s.start + s.n;
    }
    for (const backend::Segment& s : segments) save_snapshot(segments, s);
  }
  void save_snapshot(const std::vector<backend::Segment>& segments, const backend::Segment& s) {
    if (s.snapshot_after == 0) return;
    CHECK(s.snapshot_after > 0 && s.snapshot_after <= s.n && s.snapshot_state >= 0);
    for (const backend::Segment& other : segments) {
      CHECK_MSG(other.state != s.snapshot_state && other.from != s.snapshot_state,
                "a state in use is written");
      CHECK_MSG(&other == &s || other.snapshot_state != s.snapshot_state, "a state is kept twice");
    }
    const auto last = static_cast<std::size_t>(s.snapshot_after - 1);
    states_[static_cast<std::size_t>(s.snapshot_state)] = {passed_[s.state][last],
                                                           s.start + s.snapshot_after};
  }
  void check(const std::vector<backend::Segment>& segments) {
    HashCall call;
    std::int32_t tokens = 0;
    std::int32_t rows = 0;
    std::map<std::int32_t, std::pair<int, bool>> held;  // by page: how many, whether one writes
    for (const backend::Segment& s : segments) {
      CHECK(s.n >= 1 && s.start >= 0 && s.start + s.n <= limits_.context);
      CHECK(s.n_logits >= 0 && s.n_logits <= s.n);
      CHECK_MSG(&s == segments.data() || s.prefill_heavy >= (&s - 1)->prefill_heavy,
                "one that reads is not last");
      tokens += s.n;
      rows += s.n_logits;
      for (std::int64_t p = 0; p * kPage < s.start + s.n; ++p) {
        CHECK(s.pages[p] >= 0 && s.pages[p] < limits_.pages);
        auto& [holders, written] = held[s.pages[p]];
        ++holders;
        written |= (p + 1) * kPage > s.start;
        CHECK_MSG(holders == 1 || !written, "two sequences hold a page that one writes");
      }
      if (s.n == 1 && s.n_logits == 1) {
        ++call.decode;
      } else {
        call.prefill += s.n;
      }
    }
    call.segments = static_cast<std::int32_t>(segments.size());
    CHECK(tokens <= limits_.batch_tokens && rows <= limits_.logit_rows);
    CHECK(call.segments >= 1 && call.segments <= limits_.batch_segments);
    log_->clock.now_us += call.decode * log_->decode_us + call.prefill * log_->prompt_us;
    log_->calls.push_back(call);
  }

  struct State {
    std::uint64_t hash = kNothing;
    std::int64_t at = 0;
  };
  backend::Limits limits_;
  std::int64_t vocab_;
  std::shared_ptr<HashLog> log_;
  std::vector<TokenId> memory_;
  std::vector<State> states_;                                  // empty: layers carry none
  std::map<std::int32_t, std::vector<std::uint64_t>> passed_;  // by state, of the last forward
  std::vector<float> logits_;
  bool failed_ = false;
  std::vector<float> maxima_;                      // of its rows
  std::vector<TokenId> best_;                      // by row; -1: the whole row was requested
  std::vector<std::vector<backend::Ranked>> top_;  // by row; empty: not requested
  std::vector<backend::Segment> last_;  // of the last forward; the engine owns their data
  std::vector<float> hidden_;           // [tokens][kHashWidth]
};

class LetterTokenizer final : public text::Tokenizer {
 public:
  text::TokenId special_at(std::string_view, std::size_t, bool* open) const override {
    if (open != nullptr) *open = false;
    return -1;
  }
  LetterTokenizer(std::int32_t vocab, TokenId end) : vocab_(vocab), end_(end) {
    for (char c = 'a'; c <= 'z'; ++c) letters_ += c;
  }
  Result<std::vector<TokenId>> encode(std::string_view text,
                                      const text::EncodeOptions&) const override {
    std::vector<TokenId> ids;
    for (const char c : text) {
      const std::size_t at = letters_.find(c);
      if (at == std::string::npos) return Error{Errc::kUnsupported, "letters alone are encoded"};
      ids.push_back(static_cast<TokenId>(at));
    }
    return ids;
  }
  std::string_view token_bytes(TokenId id, bool) const override {
    if (id == end_) return {};
    return std::string_view(letters_).substr(static_cast<std::size_t>(id % 26), 1);
  }
  std::int32_t vocab_size() const override { return vocab_; }
  TokenId bos() const override { return -1; }
  TokenId eos() const override { return end_; }
  bool is_end(TokenId id) const override { return id == end_; }
  bool is_control(TokenId id) const override { return id == end_; }
  std::string_view model() const override { return "letters"; }
  std::string_view pre() const override { return ""; }
  std::string_view chat_template() const override { return ""; }

 private:
  std::int32_t vocab_;
  TokenId end_;
  std::string letters_;
};

}  // namespace

std::unique_ptr<backend::Executor> make_hash_executor(const ModelEngineConfig& config,
                                                      std::shared_ptr<HashLog> log) {
  return std::make_unique<HashExecutor>(config, std::move(log));
}

std::shared_ptr<const text::Tokenizer> make_letter_tokenizer(std::int32_t vocab, TokenId end) {
  return std::make_shared<LetterTokenizer>(vocab, end);
}

ModelEngineConfig test_config() {
  ModelEngineConfig c;
  c.vocab = 97;
  c.vocabulary.tokenizer = make_letter_tokenizer(c.vocab, kTestEnd);
  c.width = kHashWidth;
  c.context = 320;
  c.slots = 6;
  c.pages = 30;
  c.prefill_chunk = 64;
  c.prefill_chunk_busy = 64;
  c.numerics_class = "test/hash/r1/-/f32/single";
  return c;
}

TestEngine::TestEngine(ModelEngineConfig config, int workers) {
  log->capabilities.workers = workers;
  config.logit_rows = std::max(config.logit_rows, config.slots);
  config.clock = &log->clock;
  auto executor = make_hash_executor(config, log);
  engine = std::make_unique<ModelEngine>(std::move(executor), std::move(config));
}

void gather(const std::vector<Produced>& produced, SequenceKey first, std::vector<Outcome>& out) {
  for (const Produced& p : produced) {
    CHECK(p.key >= first && p.key - first < out.size());
    Outcome& o = out[p.key - first];
    CHECK_MSG(o.finish == wire::FinishReason::kNone, "produced after its end");
    if (o.ids.empty()) o.ids.resize(static_cast<std::size_t>(p.start), -1);  // resumed
    CHECK(p.start == static_cast<std::int64_t>(o.ids.size()));
    o.ids.insert(o.ids.end(), p.ids.begin(), p.ids.end());
    o.extra.insert(o.extra.end(), p.extra.begin(), p.extra.end());
    o.finish = p.finish;
    if (p.finish == wire::FinishReason::kError) o.error = p.error.code;
  }
}

Outcome run_alone(const SequenceSpec& spec, const ModelEngineConfig& config) {
  TestEngine t(config);
  std::vector<Outcome> out(1);
  CHECK(t.engine->add(spec).has_value());
  while (!t.engine->idle()) gather(t.engine->step(), spec.key, out);
  CHECK(t.engine->usage().pages_used == 0);
  return out[0];
}

SequenceSpec varied_spec(SequenceKey key, std::uint64_t n) {
  std::int64_t drawn = 0;
  const auto draw = [&](std::uint64_t below) {
    return random_bits(n, 0, drawn++, RandomPurpose::kNeighbour) % below;
  };
  SequenceSpec spec;
  spec.key = key;
  const std::uint64_t length = 1 + draw(n % 3 == 0 ? 200 : 20);
  for (std::uint64_t i = 0; i < length; ++i) spec.prompt.push_back(static_cast<TokenId>(draw(97)));
  spec.max_tokens = static_cast<std::int64_t>(1 + draw(100));
  spec.choice = static_cast<std::int32_t>(draw(3));
  spec.priority = static_cast<std::int32_t>(draw(3));
  spec.sampling.seed = draw(1000);
  spec.sampling.temperature = n % 4 == 0 ? 0.0f : 0.9f;
  if (n % 5 == 1) spec.sampling.top_k = 10;
  if (n % 5 == 2) spec.sampling.top_p = 0.8f;
  if (n % 5 == 3) spec.sampling.min_p = 0.05f;
  if (n % 7 == 1) spec.sampling.repetition_penalty = 1.3f;
  if (n % 7 == 2) spec.sampling.presence_penalty = spec.sampling.frequency_penalty = 0.5f;
  if (n % 2 == 0) spec.stops = {"qx", "zzz", "ee"};
  spec.sampling.ignore_eos = n % 3 == 1;
  if (n % 3 == 2) spec.sampling.min_tokens = 30;
  return spec;
}

}  // namespace holdfast::engine
