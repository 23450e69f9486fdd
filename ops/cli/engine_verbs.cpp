// The verbs logits, perplexity and bench: arguments in, tables or JSON out.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ops/cli/engine_tools.h"
#include "ops/cli/text_input.h"
#include "ops/cli/tokenize.h"
#include "ops/cli/verb_functions.h"
#include "ops/terminal/output.h"
#include "shared/base/processors.h"

namespace holdfast::cli {
namespace {

EngineChoice engine_choice(const Call& call) {
  EngineChoice choice;
  choice.file = call.text("FILE");
  choice.device = call.text("device", "cpu");
  choice.kernels = call.text("kernels");
  choice.kv_type = call.text("kv-type", "f16");
  // A state directory is only used where there is one: these verbs need none.
  std::error_code failed;
  const std::string state = std::filesystem::absolute(call.state_dir, failed).string();
  if (std::filesystem::is_directory(state, failed)) choice.cache_dir = state + "/cache/opencl";
  choice.threads = static_cast<std::int32_t>(call.integer("threads", usable_processors()));
  return choice;
}

/// "1,2,3", "@FILE" with such a list, "-" for one on stdin, or a JSON array.
Result<std::vector<std::int32_t>> ids_argument(const std::string& argument) {
  if (argument == "-") {
    HOLDFAST_TRY(const std::string text, read_stdin());
    return parse_ids(text);
  }
  if (argument.empty() || argument[0] != '@') return parse_ids(argument);
  HOLDFAST_TRY(const std::string text, read_text_argument(argument.substr(1)));
  return parse_ids(text);
}

double median_of(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2;
}

/// The median of `reached` in percent of `possible` at the same moments; 0 if the latter is
/// unknown.
double median_percent(const std::vector<double>& reached, const std::vector<double>& possible) {
  std::vector<double> shares;
  for (std::size_t i = 0; i < possible.size(); ++i) {
    if (possible[i] > 0) shares.push_back(100 * reached[i] / possible[i]);
  }
  return median_of(std::move(shares));
}

/// Converts tokens a second to 10^12 multiplications and additions a second.
std::vector<double> tops_of(std::vector<double> tok_s, double work) {
  for (double& rate : tok_s) rate *= work / 1e12;
  return tok_s;
}

/// One part of a bench, with the rates that the processor could reach.
struct Computed {
  Computed(const std::vector<double>& tok_s, double work, const std::vector<double>& peaks)
      : tops(median_of(tops_of(tok_s, work))),
        peak(median_of(peaks)),
        percent(median_percent(tops_of(tok_s, work), peaks)) {}
  double tops, peak, percent;
};
Computed prefill_of(const Bench& b) {
  return {b.prefill_tok_s, b.prefill_work, b.prefill_peak_tops};
}
Computed decode_of(const Bench& b) {
  return {b.decode_tok_s, b.decode_work, b.decode_peak_tops};
}

std::string bench_json(const BenchCall& request, const Bench& found) {
  const double percent = median_percent(found.decode_gb_s, found.stream_gb_s);
  const Computed prefill = prefill_of(found), decode = decode_of(found);
  const nlohmann::ordered_json document = {{"file", request.engine.file},
                                           {"threads", request.engine.threads},
                                           {"streams", request.streams},
                                           {"context", request.context},
                                           {"prompt_tokens", request.prompt_tokens},
                                           {"decode_tokens", request.decode_tokens},
                                           {"prefill_tok_s", median_of(found.prefill_tok_s)},
                                           {"decode_tok_s", median_of(found.decode_tok_s)},
                                           {"fill_tok_s", found.fill_tok_s},
                                           {"bytes_per_token", found.bytes_per_token},
                                           {"decode_gb_s", median_of(found.decode_gb_s)},
                                           {"stream_gb_s", median_of(found.stream_gb_s)},
                                           {"stream_percent", percent},
                                           {"prefill_tops", prefill.tops},
                                           {"prefill_peak_tops", prefill.peak},
                                           {"prefill_percent", prefill.percent},
                                           {"decode_tops", decode.tops},
                                           {"decode_peak_tops", decode.peak},
                                           {"decode_percent", decode.percent},
                                           {"barriers_per_step", found.barriers_per_step},
                                           {"prefill_samples", found.prefill_tok_s},
                                           {"decode_samples", found.decode_tok_s},
                                           {"load_s", found.load_s},
                                           {"kernels", found.kernels},
                                           {"class", found.numerics_class}};
  return document.dump(2);
}

void print_computed(const Computed& c) {
  if (c.percent <= 0) return;
  std::printf("         %8.3f TOPS, %.0f %% of the %.3f that products alone give\n", c.tops,
              c.percent, c.peak);
}

void print_bench(const BenchCall& request, const Bench& found) {
  std::printf("load     %8.2f s\nprefill  %8.1f tok/s  (%d tokens)\n", found.load_s,
              median_of(found.prefill_tok_s), request.prompt_tokens);
  print_computed(prefill_of(found));
  std::printf("decode   %8.1f tok/s  (%d tokens x %d streams behind %d, %.1f GB/s of %s a step)\n",
              median_of(found.decode_tok_s), request.decode_tokens, request.streams,
              request.context, median_of(found.decode_gb_s),
              human_bytes(found.bytes_per_token).c_str());
  print_computed(decode_of(found));
  if (!found.stream_gb_s.empty()) {
    std::printf("memory   %8.1f GB/s when it is only read: decode takes %.0f %% of that\n",
                median_of(found.stream_gb_s), median_percent(found.decode_gb_s, found.stream_gb_s));
  }
  if (found.barriers_per_step > 0) {
    std::printf("barriers %8.1f a step of decoding\n", found.barriers_per_step);
  }
  std::printf("kernels  %s, %d threads\n", found.kernels.c_str(), request.engine.threads);
}

}  // namespace

namespace {

/// Reads what the call wants to know; its engine aside.
Result<LogitsCall> logits_call(const Call& call) {
  LogitsCall request;
  request.chunk = static_cast<std::int32_t>(call.integer("chunk"));
  request.neighbours = static_cast<std::int32_t>(call.integer("batch"));
  request.decode = call.has("decode");
  if (request.neighbours < 0 || request.chunk < 0) {
    return Error{Errc::kUsage, "logits: --batch and --chunk are 0 or more"};
  }
  HOLDFAST_TRY(request.tokens, ids_argument(call.text("tokens")));
  const std::string positions = call.text("positions", "all");
  if (positions != "all") {
    HOLDFAST_TRY(const auto listed, ids_argument(positions));
    request.positions.assign(listed.begin(), listed.end());
  }
  if (request.tokens.empty() || (positions != "all" && request.positions.empty())) {
    return Error{Errc::kUsage, "logits: expected --tokens 1,2,3 and --positions 0,5 or all"};
  }
  return request;
}

}  // namespace

int logits(const Call& call) {
  const EngineChoice engine = engine_choice(call);
  auto request = logits_call(call);
  if (!request) return report_error(call, request.error());
  request->engine = engine;
  const auto text = logits_json(*request);
  if (!text) return report_error(call, text.error());
  std::fputs((text.value() + "\n").c_str(), stdout);
  return kExitDone;
}

int perplexity(const Call& call) {
  PerplexityCall request;
  request.engine = engine_choice(call);
  const auto text = file_text_argument(call, "text");
  if (!text) return report_error(call, text.error());
  request.text = *text;
  request.window = static_cast<std::int32_t>(call.integer("window", 256));
  request.all_positions = call.has("all-positions");
  const auto found = measure_perplexity(request);
  if (!found) return report_error(call, found.error());
  if (call.json) {
    const nlohmann::ordered_json document = {{"perplexity", found->value},
                                             {"standard_error", found->standard_error},
                                             {"tokens", found->tokens},
                                             {"windows", found->windows},
                                             {"class", found->numerics_class}};
    std::printf("%s\n", document.dump(2).c_str());
  } else {
    std::printf("perplexity %.4f ± %.4f over %lld tokens in %lld windows of %d (%s)\n",
                found->value, found->standard_error, static_cast<long long>(found->tokens),
                static_cast<long long>(found->windows), request.window,
                found->numerics_class.c_str());
  }
  return kExitDone;
}

int bench(const Call& call) {
  BenchCall request;
  request.engine = engine_choice(call);
  request.prompt_tokens = static_cast<std::int32_t>(call.integer("prompt-tokens", 512));
  request.decode_tokens = static_cast<std::int32_t>(call.integer("decode-tokens", 64));
  request.streams = static_cast<std::int32_t>(call.integer("streams", 1));
  request.context = static_cast<std::int32_t>(call.integer("context", 1));
  request.repeat = static_cast<std::int32_t>(call.integer("repeat", 1));
  request.assume_context = call.has("assume-context");
  const auto found = run_bench(request);
  if (!found) return report_error(call, found.error());
  if (call.json) {
    std::printf("%s\n", bench_json(request, *found).c_str());
    return kExitDone;
  }
  print_bench(request, *found);
  return kExitDone;
}

}  // namespace holdfast::cli
