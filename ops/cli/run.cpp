#include "ops/cli/run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ops/cli/daemon.h"
#include "ops/cli/output.h"
#include "ops/cli/temporary_serve.h"
#include "ops/cli/text_stream.h"
#include "shared/base/bytes.h"

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;

bool names_file(const std::string& model) {
  const bool looks_like_one =
      model.find('/') != std::string::npos || fs::path(model).extension() == ".gguf";
  std::error_code ignored;
  return looks_like_one || fs::is_regular_file(model, ignored) ||
         fs::exists(model + "/config.json", ignored);
}

/// A model name from a file name: what is before ".gguf", in lower case, odd characters as '-'.
std::string model_name(const std::string& path) {
  std::string name = fs::path(path).stem().string();
  for (char& c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_';
    c = plain ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : '-';
  }
  return name.empty() ? "model" : name;
}

/// Does the model have a chat template? Unknown models answer no; submit then says what is wrong.
bool has_chat(client::Client& client, const std::string& model) {
  const auto answer = client.models(client::AllTenants::local());
  const auto* models = std::get_if<std::vector<wire::ModelInfo>>(&answer);
  if (models == nullptr) return false;
  return std::any_of(models->begin(), models->end(),
                     [&](const wire::ModelInfo& info) { return info.name == model && info.chat; });
}

wire::Submit make_submit(const Call& call, const std::string& model, bool chat) {
  wire::Submit submit;
  submit.model = model;
  wire::Prompt prompt;
  if (chat) {
    const nlohmann::json body = {
        {"messages", {{{"role", "user"}, {"content", call.text("PROMPT")}}}}};
    prompt.messages_json = body.dump();
  } else {
    prompt.text = call.text("PROMPT");
  }
  submit.prompts.push_back(prompt);
  if (call.has("max-tokens")) submit.max_tokens = call.integer("max-tokens");
  submit.sampling.temperature = static_cast<float>(call.real("temperature", 1.0));
  submit.seed_given = call.has("seed");
  submit.sampling.seed = static_cast<std::uint64_t>(call.integer("seed"));
  if (call.has("prompt-logprobs")) {
    submit.sampling.prompt_logprobs = static_cast<std::int32_t>(call.integer("prompt-logprobs"));
  }
  submit.stops = call.list("stop");
  submit.priority = wire::PriorityClass::kInteractive;
  return submit;
}

int submit_and_print(const Call& call, const std::string& model, CancelOnSignal& signals) {
  auto connected = connect_clients(call);
  if (!connected) return report_error(call, connected.error());
  client::Client& client = **connected;
  const bool chat = call.has("chat") || (!call.has("raw") && has_chat(client, model));
  const auto accepted = client.submit(client::Principal::local(), make_submit(call, model, chat));
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
  if (!call.json && isatty(STDERR_FILENO) == 1) {
    std::fprintf(stderr, "[request %s, %zu tokens, seed %llu]\n", end.info.request_id.c_str(),
                 end.choices.empty() ? std::size_t{0} : end.choices[0].ids.size(),
                 static_cast<unsigned long long>(end.info.sampling.seed));
  }
  return report_end(call, end);
}

/// A file for a daemon that runs already: register it there under a name of its own.
int run_file_on_daemon(const Call& call, const std::string& path, CancelOnSignal& signals) {
  const std::string name = model_name(path);
  int exit = kExitDone;
  const auto added =
      operate(call, "models.add", {{"name", name}, {"path", path}}, exit, std::chrono::minutes(10));
  return added ? submit_and_print(call, name, signals) : exit;
}

}  // namespace

int run_prompt(const Call& call) {
  if (call.has("raw") && call.has("chat")) {
    return report_error(call, Errc::kUsage, "--raw and --chat exclude each other");
  }
  if (!is_valid_utf8(call.text("PROMPT"))) {
    return report_error(call, Errc::kInvalidRequest, "the prompt is not valid UTF-8");
  }
  CancelOnSignal signals;
  const std::string model = call.text("MODEL");
  if (!names_file(model)) return submit_and_print(call, model, signals);
  std::error_code failed;
  const std::string path = fs::absolute(model, failed).string();
  if (!fs::is_regular_file(path, failed) && !fs::is_directory(path, failed)) {
    return report_error(call, Errc::kNotFound, "run " + model + ": no such file or folder");
  }
  if (daemon_listens(call.state_dir, std::chrono::milliseconds(0))) {
    return run_file_on_daemon(call, path, signals);
  }
  auto serve = TemporaryServe::start(model_name(path), path);
  if (!serve) return report_error(call, Errc::kInternal, serve.error().what);
  Call there = call;
  there.state_dir = (*serve)->state_dir();
  return submit_and_print(there, model_name(path), signals);
}

}  // namespace holdfast::cli
