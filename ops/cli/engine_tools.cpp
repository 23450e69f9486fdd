#include "ops/cli/engine_tools.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "ops/cli/engine_open.h"
#include "ops/cli/tokenize.h"
#include "worker/engine/logits.h"

namespace holdfast::cli {
namespace {

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

}  // namespace

Result<std::string> logits_json(const LogitsCall& call) {
  engine::EngineOptions options = engine_options(call.engine);
  options.slots = call.neighbours + 1;
  options.prefill_chunk = std::max(call.chunk, 512);
  HOLDFAST_TRY(const auto engine, open_chosen(call.engine, options));
  std::vector<std::int64_t> positions = call.positions;
  if (positions.empty()) {
    positions.resize(call.tokens.size());
    std::iota(positions.begin(), positions.end(), std::int64_t{0});
  }
  HOLDFAST_TRY(const auto rows, engine::compute_logits(*engine, call.tokens, positions,
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
  HOLDFAST_TRY(const auto ids, tokenize_file(call.engine.file, call.text, {}));
  const auto windows = static_cast<std::int64_t>(ids.size()) / call.window;
  if (windows == 0) {
    return Error{Errc::kInvalidRequest, "perplexity: the text has " + std::to_string(ids.size()) +
                                            " tokens; one window needs " +
                                            std::to_string(call.window)};
  }
  engine::EngineOptions options = engine_options(call.engine);
  options.slots = 1;
  options.context = call.window + 1;
  options.logit_rows = call.window;
  HOLDFAST_TRY(const auto engine, open_chosen(call.engine, options));
  std::vector<std::int64_t> positions;
  for (std::int64_t i = call.all_positions ? 0 : call.window / 2; i + 1 < call.window; ++i) {
    positions.push_back(i);
  }
  Score score;
  for (std::int64_t w = 0; w < windows; ++w) {
    show_share("scoring", static_cast<double>(w) / static_cast<double>(windows));
    const auto begin = ids.begin() + w * call.window;
    const std::vector<std::int32_t> window(begin, begin + call.window);
    HOLDFAST_CHECKED(
        engine::visit_logits(*engine, window, positions, {}, [&](std::size_t i, const float* row) {
          const std::int32_t next = window[static_cast<std::size_t>(positions[i]) + 1];
          score.add(engine::row_log_sum_exp(*engine, row) - static_cast<double>(row[next]));
        }));
  }
  show_share("scoring", 1);
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

}  // namespace holdfast::cli
