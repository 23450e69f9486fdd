#include "ops/cli/run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ops/cli/sampling_flags.h"
#include "ops/cli/text_input.h"
#include "ops/serve/daemon.h"
#include "ops/serve/model_path.h"
#include "ops/serve/temporary_serve.h"
#include "ops/terminal/output.h"
#include "ops/terminal/text_stream.h"
#include "shared/base/bytes.h"
#include "shared/sampling/parameters.h"
#include "shared/wire/bounds.h"

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;

constexpr wire::IntegerRange kAlternatives = {static_cast<std::int64_t>(sampling::kLogprobs.low),
                                              static_cast<std::int64_t>(sampling::kLogprobs.high)};

bool names_file(const std::string& model) {
  const bool looks_like_one =
      model.find('/') != std::string::npos || fs::path(model).extension() == ".gguf";
  std::error_code ignored;
  return looks_like_one || fs::is_regular_file(model, ignored) ||
         fs::exists(model + "/config.json", ignored);
}

/// True if the model has a chat template. False for unknown models: submit then says what is wrong.
bool has_chat(client::Client& client, const std::string& model) {
  const auto answer = client.models(client::AllTenants::local());
  const auto* models = std::get_if<std::vector<wire::ModelInfo>>(&answer);
  if (models == nullptr) return false;
  return std::any_of(models->begin(), models->end(),
                     [&](const wire::ModelInfo& info) { return info.name == model && info.chat; });
}

Error out_of_range(const std::string& flag, const std::string& given, const std::string& low,
                   const std::string& high) {
  return {Errc::kInvalidRequest, "--" + flag + " " + given + ": expected " + low + " to " + high};
}

/// Reads the number of a flag, within HTTP's bounds; `out` stays if it was not given.
template <class Number>
Result<void> take_integer(const Call& call, const char* flag, wire::IntegerRange range,
                          Number* out) {
  if (!call.has(flag)) return {};
  const std::int64_t value = call.integer(flag);
  if (value < range.low || value > range.high) {
    return out_of_range(flag, call.text(flag), std::to_string(range.low),
                        std::to_string(range.high));
  }
  *out = static_cast<Number>(value);
  return {};
}

Result<void> take_stops(const Call& call, std::vector<std::string>* out) {
  *out = call.list("stop");
  if (out->size() > wire::kStopsMax) {
    return Error{Errc::kInvalidRequest,
                 "--stop: expected at most " + std::to_string(wire::kStopsMax)};
  }
  for (const std::string& stop : *out) {
    if (!stop.empty() && stop.size() <= wire::kStopBytesMax) continue;
    return Error{Errc::kInvalidRequest,
                 "--stop: expected 1 to " + std::to_string(wire::kStopBytesMax) + " bytes"};
  }
  return {};
}

/// The request without its prompt.
Result<wire::Submit> make_submit(const Call& call, const std::string& model) {
  wire::Submit submit;
  submit.model = model;
  wire::Sampling& sampling = submit.sampling;
  HOLDFAST_CHECKED(take_sampling(call, &sampling));
  HOLDFAST_CHECKED(take_integer(call, "prompt-logprobs", kAlternatives, &sampling.prompt_logprobs));
  wire::IntegerRange tokens = wire::kMaxTokens;
  if (call.has("prompt-logprobs")) tokens.low = 0;
  HOLDFAST_CHECKED(take_integer(call, "max-tokens", tokens, &submit.max_tokens));
  HOLDFAST_CHECKED(take_stops(call, &submit.stops));
  submit.seed_given = call.has("seed");
  sampling.seed = static_cast<std::uint64_t>(call.integer("seed"));
  submit.priority = wire::PriorityClass::kInteractive;
  return submit;
}

wire::Prompt make_prompt(const std::string& text, bool chat) {
  wire::Prompt prompt;
  if (chat) {
    const nlohmann::json body = {{"messages", {{{"role", "user"}, {"content", text}}}}};
    prompt.messages_json = body.dump();
  } else {
    prompt.text = text;
  }
  return prompt;
}

int submit_and_print(const Call& call, const std::string& text, wire::Submit submit,
                     CancelOnSignal& signals) {
  auto connected = connect_clients(call);
  if (!connected) return report_error(call, connected.error());
  client::Client& client = **connected;
  const bool chat = call.has("chat") || (!call.has("raw") && has_chat(client, submit.model));
  submit.prompts.push_back(make_prompt(text, chat));
  const auto accepted = client.submit(client::Principal::local(), std::move(submit));
  if (const auto* failure = std::get_if<client::Failure>(&accepted)) {
    return report_refusal(call, *failure);
  }
  const wire::RequestInfo& info = std::get<wire::Accepted>(accepted).info;
  signals.arm(client, info.request_id);
  const auto streamed = follow(client, info, !call.json);
  if (const auto* failure = std::get_if<client::Failure>(&streamed)) {
    return report_refusal(call, *failure);
  }
  const Streamed& end = std::get<Streamed>(streamed);
  if (!call.json && !call.quiet && isatty(STDERR_FILENO) == 1) {
    std::fprintf(stderr, "[request %s, %zu tokens, seed %llu]\n", end.info.request_id.c_str(),
                 end.choices.empty() ? std::size_t{0} : end.choices[0].ids.size(),
                 static_cast<unsigned long long>(end.info.sampling.seed));
  }
  return report_end(call, end);
}

/// Registers a file with a running daemon, under a name of its own.
bool register_file(const Call& call, const std::string& name, const std::string& path, int& exit) {
  const nlohmann::json args = {{"name", name}, {"path", path}};
  return operate(call, "models.add", args, exit, std::chrono::minutes(10)).has_value();
}

int run_file(const Call& call, const std::string& file, const std::string& text,
             wire::Submit submit, CancelOnSignal& signals) {
  const auto path = find_model(file);
  if (!path) return report_error(call, path.error());
  submit.model = model_name_of(*path);
  if (daemon_listens(call.state_dir, std::chrono::milliseconds(0))) {
    int exit = kExitDone;
    if (!register_file(call, submit.model, *path, exit)) return exit;
    return submit_and_print(call, text, std::move(submit), signals);
  }
  auto serve = TemporaryServe::start(submit.model, *path);
  if (!serve) return report_error(call, Errc::kInternal, serve.error().what);
  Call there = call;
  there.state_dir = (*serve)->state_dir();
  return submit_and_print(there, text, std::move(submit), signals);
}

}  // namespace

int run_prompt(const Call& call) {
  if (call.has("raw") && call.has("chat")) {
    return report_error(call, Errc::kUsage, "--raw and --chat exclude each other");
  }
  const std::string model = call.text("MODEL");
  auto submit = make_submit(call, model);
  if (!submit) return report_error(call, submit.error());
  const auto text = text_argument(call, "PROMPT");
  if (!text) return report_error(call, text.error());
  if (!is_valid_utf8(*text)) {
    return report_error(call, Errc::kInvalidRequest, "the prompt is not valid UTF-8");
  }
  CancelOnSignal signals;
  if (names_file(model)) return run_file(call, model, *text, std::move(*submit), signals);
  return submit_and_print(call, *text, std::move(*submit), signals);
}

}  // namespace holdfast::cli
