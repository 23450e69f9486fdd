#include "ops/cli/run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ops/cli/model_argument.h"
#include "ops/cli/run_remote.h"
#include "ops/cli/submit_flags.h"
#include "ops/cli/text_input.h"
#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"
#include "ops/terminal/text_stream.h"
#include "shared/base/bytes.h"

namespace holdfast::cli {
namespace {

/// True if the model has a chat template. False for unknown models: submit then says what is wrong.
bool has_chat(client::Client& client, const std::string& model) {
  const auto answer = client.models(client::AllTenants::local());
  const auto* models = std::get_if<std::vector<wire::ModelInfo>>(&answer);
  if (models == nullptr) return false;
  return std::any_of(models->begin(), models->end(),
                     [&](const wire::ModelInfo& info) { return info.name == model && info.chat; });
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

/// True if there is no prompt, and a user who can type one.
bool is_chat(const Call& call) {
  const bool prompt = call.has("PROMPT") || call.has("raw");
  return !prompt && !call.remote && isatty(STDIN_FILENO) == 1;
}

}  // namespace

int run_prompt(const Call& call) {
  if (call.has("raw") && call.has("chat")) {
    return report_error(call, Errc::kUsage, "--raw and --chat exclude each other");
  }
  auto submit = make_submit(call);
  if (!submit) return report_error(call, submit.error());
  if (is_chat(call)) return chat(call);
  const auto text = text_argument(call, "PROMPT");
  if (!text) return report_error(call, text.error());
  if (!is_valid_utf8(*text)) {
    return report_error(call, Errc::kInvalidRequest, "the prompt is not valid UTF-8");
  }
  if (call.remote) return run_over_http(call, *text);
  CancelOnSignal signals;
  int exit = kExitDone;
  const auto served = serve_model(call, exit);
  if (!served) return exit;
  submit->model = served->name;
  return submit_and_print(served->call, *text, std::move(*submit), signals);
}

}  // namespace holdfast::cli
