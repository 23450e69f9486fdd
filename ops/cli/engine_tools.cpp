#include "ops/cli/engine_tools.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>

#include "ops/cli/tokenize.h"
#include "shared/base/clock.h"
#include "worker/engine/engine.h"
#include "worker/engine/logits.h"

namespace holdfast::cli {
namespace {

/// A line that rewrites itself on a terminal, nothing elsewhere.
void show(const char* what, double done) {
  if (isatty(STDERR_FILENO) != 1) return;
  std::fprintf(stderr, done < 1 ? "\r\033[K%s %3.0f%%" : "\r\033[K", what, 100 * done);
}

engine::EngineOptions options_of(const EngineChoice& choice) {
  engine::EngineOptions o;
  o.device = choice.device;
  o.kernels = choice.kernels;
  o.threads = choice.threads;
  o.kv_type = choice.kv_type;
  o.cache_dir = choice.cache_dir;
  o.progress = [](double done) { show("loading", done); };
  return o;
}

Result<std::unique_ptr<engine::Engine>> open(const EngineChoice& choice,
                                             const engine::EngineOptions& options) {
  auto opened = engine::open_engine(choice.file, options);
  show("loading", 1);
  return opened;
}

double seconds_now() {
  return static_cast<double>(system_clock().monotonic_us()) / 1e6;
}

std::string row_text(const std::vector<float>& row) {
  std::string out = "[";
  char buffer[32];
  for (std::size_t i = 0; i < row.size(); ++i) {
    std::snprintf(buffer, sizeof buffer, "%s%.9g", i == 0 ? "" : ",", static_cast<double>(row[i]));
    out += buffer;
  }
  return out + "]";
}

/// Sum, sum of squares and count of the scored tokens' negative log likelihoods.
struct Score {
  double sum = 0;
  double squares = 0;
  std::int64_t n = 0;
  void add(double nll) {
    sum += nll;
    squares += nll * nll;
    ++n;
  }
};

/// Runs the sequences of `prompt_tokens` each until all have `tokens` tokens. Seconds taken.
Result<double> run_sequences(engine::Engine& engine, std::int32_t streams,
                             std::int32_t prompt_tokens, std::int32_t tokens, const char* what) {
  for (std::int32_t s = 0; s < streams; ++s) {
    engine::SequenceSpec spec;
    spec.key = static_cast<engine::SequenceKey>(s) + 1;
    for (std::int32_t i = 0; i < prompt_tokens; ++i) spec.prompt.push_back(3 + (i * 7 + s) % 200);
    spec.sampling.temperature = 0;
    spec.sampling.ignore_eos = true;
    spec.max_tokens = tokens;
    HF_CHECKED(engine.add(std::move(spec)));
  }
  const double start = seconds_now();
  std::int64_t produced = 0;
  while (!engine.idle()) {
    for (const engine::Produced& p : engine.step()) {
      if (p.finish == wire::FinishReason::kError) return p.error;
      produced += static_cast<std::int64_t>(p.ids.size());
    }
    show(what, static_cast<double>(produced) / (static_cast<double>(streams) * tokens));
  }
  return seconds_now() - start;
}

}  // namespace

Result<std::string> logits_json(const LogitsCall& call) {
  engine::EngineOptions options = options_of(call.engine);
  options.slots = call.neighbours + 1;
  options.prefill_chunk = std::max(call.chunk, 512);
  HF_TRY(const auto engine, open(call.engine, options));
  std::vector<std::int64_t> positions = call.positions;
  if (positions.empty()) {
    positions.resize(call.tokens.size());
    std::iota(positions.begin(), positions.end(), std::int64_t{0});
  }
  HF_TRY(const auto rows, engine::compute_logits(*engine, call.tokens, positions,
                                                 {call.chunk, call.neighbours, call.decode}));
  std::string out = "{\"positions\":[";
  for (std::size_t i = 0; i < positions.size(); ++i) {
    out += (i == 0 ? "" : ",") + std::to_string(positions[i]);
  }
  out += "],\"logits\":[";
  for (std::size_t i = 0; i < rows.size(); ++i) out += (i == 0 ? "" : ",") + row_text(rows[i]);
  return out + "],\"class\":\"" + engine->describe().numerics_class + "\"}";
}

Result<Perplexity> measure_perplexity(const PerplexityCall& call) {
  if (call.window < 4) {
    return Error{Errc::kUsage, "perplexity: a window of " + std::to_string(call.window) +
                                   " tokens; expected 4 or more"};
  }
  HF_TRY(const std::string text, read_text_argument(call.text_file));
  HF_TRY(const auto ids, tokenize_file(call.engine.file, text, {}));
  const auto windows = static_cast<std::int64_t>(ids.size()) / call.window;
  if (windows == 0) {
    return Error{Errc::kInvalidRequest, "perplexity: the text has " + std::to_string(ids.size()) +
                                            " tokens; one window needs " +
                                            std::to_string(call.window)};
  }
  engine::EngineOptions options = options_of(call.engine);
  options.slots = 1;
  options.context = call.window + 1;
  options.logit_rows = call.window;
  HF_TRY(const auto engine, open(call.engine, options));
  std::vector<std::int64_t> positions;
  for (std::int64_t i = call.all_positions ? 0 : call.window / 2; i + 1 < call.window; ++i) {
    positions.push_back(i);
  }
  Score score;
  for (std::int64_t w = 0; w < windows; ++w) {
    show("scoring", static_cast<double>(w) / static_cast<double>(windows));
    const auto begin = ids.begin() + w * call.window;
    const std::vector<std::int32_t> window(begin, begin + call.window);
    HF_CHECKED(
        engine::visit_logits(*engine, window, positions, {}, [&](std::size_t i, const float* row) {
          const std::int32_t next = window[static_cast<std::size_t>(positions[i]) + 1];
          score.add(engine::row_log_sum_exp(*engine, row) - static_cast<double>(row[next]));
        }));
  }
  show("scoring", 1);
  Perplexity out;
  const double mean = score.sum / static_cast<double>(score.n);
  const double variance = score.squares / static_cast<double>(score.n) - mean * mean;
  out.value = std::exp(mean);
  out.standard_error =
      out.value * std::sqrt(std::max(variance, 0.0) /
                            static_cast<double>(std::max<std::int64_t>(score.n - 1, 1)));
  out.tokens = score.n;
  out.windows = windows;
  out.numerics_class = engine->describe().numerics_class;
  return out;
}

Result<Bench> run_bench(const BenchCall& call) {
  if (call.prompt_tokens < 0 || call.decode_tokens < 0 || call.streams < 1) {
    return Error{Errc::kUsage, "bench: tokens must be 0 or more, streams 1 or more"};
  }
  engine::EngineOptions options = options_of(call.engine);
  options.slots = call.streams;
  options.context = std::max(call.prompt_tokens, call.decode_tokens) + 1;
  options.prefill_chunk = call.prefill_chunk;
  options.prefix_cache = false;  // the cost of a token, not of one that is known or guessed
  options.drafts = 0;
  Bench out;
  const double start = seconds_now();
  HF_TRY(const auto engine, open(call.engine, options));
  out.load_s = seconds_now() - start;
  if (call.prompt_tokens > 0) {
    HF_TRY(const double took, run_sequences(*engine, 1, call.prompt_tokens, 1, "prefill"));
    out.prefill_tok_s = call.prompt_tokens / took;
  }
  const wire::LoadedModel model = engine->describe();
  out.bytes_per_token = static_cast<double>(model.memory.weights);
  if (call.decode_tokens > 0) {
    HF_TRY(const double took,
           run_sequences(*engine, call.streams, 1, call.decode_tokens, "decode"));
    out.decode_tok_s = static_cast<double>(call.streams) * call.decode_tokens / took;
    out.decode_gb_s = out.bytes_per_token * call.decode_tokens / took / 1e9;
  }
  out.numerics_class = model.numerics_class;
  const std::size_t slash = out.numerics_class.find('/');
  out.kernels = out.numerics_class.substr(slash + 1);
  out.kernels = out.kernels.substr(0, out.kernels.find('/'));
  return out;
}

}  // namespace holdfast::cli
