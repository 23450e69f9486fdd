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
  Result<backend::StepResult> forward(const backend::Batch& batch) override {
    ++step_;
    check(batch.segments);
    if (failed_ && log_->then) return Error{*log_->then, "forward: and again"};
    last_ = batch.segments;
    hidden_.clear();
    begin_rows();
    for (const backend::Segment& s : last_) write_cells(s);
    advance_states(last_);
    for (const backend::Segment& s : last_) {
      for (std::int64_t p = s.start; p < s.start + s.n; ++p) add_hidden(s, p);
    }
    for (const backend::Segment& s : last_) HOLDFAST_CHECKED(add_rows(s));
    return result();
  }
  Result<backend::StepResult> compute_deferred_logits(std::int32_t first, std::int32_t n) override {
    ++step_;
    CHECK(n > 0 && n <= limits_.logit_rows);
    begin_rows();
    std::fill(logits_.begin(), logits_.end(), -777.0f);  // forward's rows are gone
    for (const backend::Segment& s : last_) {
      for (std::int32_t i = 0; i < s.n; ++i, --first) {
        if (first > 0 || row_count() == n) continue;
        CHECK_MSG(s.wants.is_deferred(), "nobody requested the logits of this token");
        if (s.tokens[i] == log_->error_after) {
          return Error{log_->error, "more logits: segment is not finite"};
        }
        row(s, s.start + i, next_row());
        top_counts_.push_back(backend::Wants::kWholeRow);
      }
    }
    CHECK(row_count() == n);
    return result();
  }
  backend::Memory memory() const override { return {1, 2, 3}; }
  void on_workers(const std::function<void(int)>& work) override {
    ++log_->spread;
    std::vector<std::thread> others;
    for (int i = 1; i < log_->capabilities.workers; ++i) others.emplace_back(work, i);
    work(0);
    for (std::thread& other : others) other.join();
  }
  backend::ExecutorCounters counters() const override { return {0, 7}; }

 private:
  void write_cells(const backend::Segment& s) {
    for (std::int32_t i = 0; i < s.n; ++i) {
      cell(s, s.start + i) = s.tokens[i] + (s.prefill_heavy ? kPrefillHeavyOffset : 0);
    }
  }

  // Rows of logits are added one after the other.
  void begin_rows() {
    top_counts_.clear();
    greatest_.clear();
    top_.clear();
  }
  std::int32_t row_count() const { return static_cast<std::int32_t>(top_counts_.size()); }
  float* next_row() { return logits_.data() + row_count() * vocab_; }

  /// Adds the rows that a segment requests.
  Result<void> add_rows(const backend::Segment& s) {
    const std::int32_t rows = s.wants.logit_rows(), top_count = s.wants.top_count();
    const TokenId* requested = s.tokens + s.n - rows;
    if (std::find(requested, s.tokens + s.n, log_->error_after) != s.tokens + s.n) {
      failed_ = true;
      return Error{log_->error, "forward: segment is not finite"};
    }
    const bool is_whole = top_count == backend::Wants::kWholeRow;
    for (std::int64_t p = s.start + s.n - rows; p < s.start + s.n; ++p) {
      float* at = next_row();
      row(s, p, at);
      if (!is_whole && !all_finite(at, vocab_)) {
        return Error{Errc::kNumericsNan, "forward: segment is not finite"};
      }
      top_counts_.push_back(top_count);
      add_top(at, top_count);
    }
    return {};
  }

  backend::StepResult result() {
    find_maxima();
    backend::ResultViews views;
    views.logit_rows = row_count();
    views.top_counts = top_counts_.data();
    views.logits = {logits_.data(), vocab_};
    if (log_->tells_maxima) {
      views.maxima = {maxima_.data(), backend::logit_blocks(static_cast<std::int32_t>(vocab_))};
      log_->maxima_rows += std::count(top_counts_.begin(), top_counts_.end(), 0);
    }
    views.greatest = greatest_.data();
    views.top = {top_.data(), log_->capabilities.top_max};
    views.hidden = {hidden_.data(), kHashWidth};
    views.hidden_rows = static_cast<std::int64_t>(hidden_.size()) / kHashWidth;
    return {views, step_};
  }

  /// Adds the token, its position, and a sum over the prefix, all read back through the pages.
  void add_hidden(const backend::Segment& s, std::int64_t p) {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i <= p; ++i) sum = (sum * 31 + cell(s, i)) % 1009;
    const bool requested = s.wants.is_hidden_of(static_cast<std::int32_t>(p - s.start));
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

  /// Adds the first of a row's total order, as many as are requested; the others have gaps. The
  /// row is gone then.
  void add_top(float* row, std::int32_t top_count) {
    const std::int32_t n = top_count == backend::Wants::kGreatest ? 1 : top_count;
    CHECK(top_count == backend::Wants::kGreatest ? log_->capabilities.greatest
                                                 : n <= log_->capabilities.top_max);
    log_->best_rows += top_count == backend::Wants::kGreatest;
    log_->top_rows += top_count > 0;
    greatest_.push_back(-1);
    top_.resize(greatest_.size() * static_cast<std::size_t>(log_->capabilities.top_max));
    if (n == 0) return;
    std::vector<backend::Ranked> all;
    for (std::int32_t id = 0; id < vocab_; ++id) all.push_back({row[id], id});
    std::stable_sort(
        all.begin(), all.end(),
        [](const backend::Ranked& a, const backend::Ranked& b) { return a.logit > b.logit; });
    greatest_.back() = all[0].id;
    if (top_count > 0) std::copy_n(all.begin(), n, top_.end() - log_->capabilities.top_max);
    std::fill(row, row + vocab_, -777.0f);
  }

  TokenId& cell(const backend::Segment& s, std::int64_t position) {
    return memory_[static_cast<std::size_t>(s.pages[position / kPage] * kPage + position % kPage)];
  }
  void row(const backend::Segment& s, std::int64_t position, float* out) {
    std::uint64_t h = kNothing;
    for (std::int64_t p = 0; p <= position; ++p) h = mix(h, static_cast<std::uint64_t>(cell(s, p)));
    if (!states_.empty()) {  // the same, but carried on from step to step
      h = passed_[s.states.at][static_cast<std::size_t>(position - s.start)];
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
      const backend::StateUse& use = s.states;
      State& state = states_[static_cast<std::size_t>(use.at)];
      CHECK(use.from < 0 || s.start > 0);
      state = states_[static_cast<std::size_t>(use.origin())];
      if (s.start == 0) state = {};
      CHECK_MSG(state.at == s.start, "a state is not where its sequence is");
      CHECK_MSG(passed_.count(use.at) == 0, "two segments have one state");
      for (std::int32_t i = 0; i < s.n; ++i) {
        state.hash = mix(state.hash, static_cast<std::uint64_t>(cell(s, s.start + i)));
        passed_[use.at].push_back(state.hash);
      }
      state.at = s.start + s.n;
    }
    for (const backend::Segment& s : segments) {
      if (s.states.snapshot) save_snapshot(segments, s, *s.states.snapshot);
    }
  }
  void save_snapshot(const std::vector<backend::Segment>& segments, const backend::Segment& s,
                     const backend::StateSnapshot& snapshot) {
    CHECK(snapshot.after > 0 && snapshot.after <= s.n && snapshot.state >= 0);
    for (const backend::Segment& other : segments) {
      CHECK_MSG(other.states.at != snapshot.state && other.states.from != snapshot.state,
                "a state in use is written");
      CHECK_MSG(
          &other == &s || !other.states.snapshot || other.states.snapshot->state != snapshot.state,
          "a state is saved twice");
    }
    const auto last = static_cast<std::size_t>(snapshot.after - 1);
    states_[static_cast<std::size_t>(snapshot.state)] = {passed_[s.states.at][last],
                                                         s.start + snapshot.after};
  }
  void check(const std::vector<backend::Segment>& segments) {
    HashCall call;
    std::int32_t tokens = 0;
    std::int32_t rows = 0;
    std::map<std::int32_t, std::pair<int, bool>> held;  // by page: how many, whether one writes
    for (const backend::Segment& s : segments) {
      CHECK(s.n >= 1 && s.start >= 0 && s.start + s.n <= limits_.context);
      CHECK(s.wants.fits(s.n));
      CHECK_MSG(&s == segments.data() || s.prefill_heavy >= (&s - 1)->prefill_heavy,
                "one that reads is not last");
      tokens += s.n;
      rows += s.wants.logit_rows();
      for (std::int64_t p = 0; p * kPage < s.start + s.n; ++p) {
        CHECK(s.pages[p] >= 0 && s.pages[p] < limits_.pages);
        auto& [holders, written] = held[s.pages[p]];
        ++holders;
        written |= (p + 1) * kPage > s.start;
        CHECK_MSG(holders == 1 || !written, "two sequences hold a page that one writes");
      }
      if (s.n == 1 && s.wants.logit_rows() == 1) {
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
  std::vector<float> maxima_;             // of its rows
  std::vector<std::int32_t> top_counts_;  // by row
  std::vector<TokenId> greatest_;         // by row; -1: not requested
  std::vector<backend::Ranked> top_;      // [rows][top_max]
  std::vector<backend::Segment> last_;    // of the last forward; the engine owns their data
  std::vector<float> hidden_;             // [tokens][kHashWidth]
  std::uint64_t step_ = 0;
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
