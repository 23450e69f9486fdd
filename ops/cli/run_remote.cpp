#include "ops/cli/run_remote.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "ops/cli/sampling_flags.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/interrupt.h"
#include "ops/terminal/output.h"
#include "shared/base/json_text.h"
#include "shared/remote/generation.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

void emit(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Refuses what HTTP has no stream for, and files of this machine.
std::optional<Error> refuse_flags(const Call& call) {
  const std::string model = call.text("MODEL");
  std::error_code ignored;
  if (model.ends_with(".gguf") || std::filesystem::exists(model, ignored)) {
    return Error{Errc::kUsage, "run " + model + ": a file of this machine, and " +
                                   call.remote->url +
                                   " is asked; name a model of that server "
                                   "(`holdfast models list`), or run it without HOLDFAST_URL"};
  }
  for (const char* flag : {"prompt-logprobs", "device"}) {
    if (!call.has(flag)) continue;
    return Error{Errc::kUsage, std::string("run: --") + flag + " is not available over HTTP, and " +
                                   call.remote->url + " is asked"};
  }
  return std::nullopt;
}

/// True if the server's model of this name has a chat template; false for one that it does not
/// have: the next question says so.
client::Answer<bool> has_chat(const Call& call) {
  const auto models = remote::ask(*call.remote, "/v1/models");
  if (const auto* failure = std::get_if<client::Failure>(&models)) return *failure;
  for (const json& model : std::get<json>(models).value("data", json::array())) {
    if (model.value("id", "") == call.text("MODEL")) return model.value("chat", false);
  }
  return false;
}

/// The tokens of the prompt and what the context leaves: {"tokens": […], "max_model_len": …}.
client::Answer<json> tokens_of(const Call& call, const std::string& prompt) {
  bool chat = call.has("chat");
  if (!chat && !call.has("raw")) {
    const auto answer = has_chat(call);
    if (const auto* failure = std::get_if<client::Failure>(&answer)) return *failure;
    chat = std::get<bool>(answer);
  }
  json body = {{"model", call.text("MODEL")}};
  if (chat) {
    body["messages"] = {{{"role", "user"}, {"content", prompt}}};
  } else {
    body["prompt"] = prompt;
  }
  auto answer = remote::ask(*call.remote, "/tokenize", body.dump());
  auto* document = std::get_if<json>(&answer);
  if (document == nullptr || document->contains("tokens")) return answer;
  client::Failure failure;
  failure.code = Errc::kUnreachable;
  failure.message = call.remote->url + "/tokenize: the answer has no tokens; expected Holdfast";
  return failure;
}

/// The body of the completion.
json completion_body(const Call& call, const json& tokens) {
  json body = sampling_body(call);
  body["model"] = call.text("MODEL");
  body["prompt"] = tokens.at("tokens");
  body["stream"] = true;
  body["priority"] = "interactive";
  const std::int64_t left = tokens.value("max_model_len", std::int64_t{0}) -
                            static_cast<std::int64_t>(tokens.at("tokens").size());
  body["max_tokens"] = call.integer("max-tokens", std::max<std::int64_t>(left, 1));
  if (call.has("seed")) body["seed"] = call.integer("seed");
  if (call.has("stop")) body["stop"] = call.list("stop");
  return body;
}

json choice_json(const json& choice, const std::string& text) {
  json out = {{"index", choice.value("index", 0)}, {"text", text}};
  if (choice.contains("finish_reason")) out["finish"] = choice["finish_reason"];
  if (choice.contains("error")) out["error"] = choice["error"];
  return out;
}

/// How a request ended, as GET /v1/requests/ID tells it.
json request_of(const remote::Generated& end) {
  return try_parse_json<json>(end.request);
}

/// The result as JSON: that of the socket without the tokens' ids, which HTTP does not tell.
json result_json(const remote::Generated& end) {
  const json request = request_of(end);
  json choices = json::array();
  for (const json& choice : request.value("choices", json::array())) {
    const auto text = end.choices.find(choice.value("index", 0));
    choices.push_back(choice_json(choice, text == end.choices.end() ? "" : text->second));
  }
  const json usage = request.value("usage", json::object());
  return {{"id", end.request_id},
          {"model", request.value("model", "")},
          {"state", request.value("state", "")},
          {"seed", request.value("seed", std::uint64_t{0})},
          {"prompt_tokens", {usage.value("prompt_tokens", std::int64_t{0})}},
          {"choices", std::move(choices)}};
}

/// Says how a request ended. Returns kExitDone if it succeeded.
int report_end(const Call& call, const remote::Generated& end) {
  if (call.json) print_document(call, result_json(end));
  const json request = request_of(end);
  const std::string state = request.value("state", "");
  if (state == "succeeded") return kExitDone;
  std::string why;
  for (const json& choice : request.value("choices", json::array())) {
    if (!why.empty() || !choice.contains("error")) continue;
    const json& error = choice["error"];
    why = ": " + error.value("message", "") + " [" + error.value("code", "") + "]";
  }
  std::fprintf(stderr, "holdfast: request %s %s%s\n", end.request_id.c_str(), state.c_str(),
               why.c_str());
  return kExitFailed;
}

void print_rest(const Call& call, const remote::Generated& end, bool one) {
  if (call.json) return;
  if (!end.document.empty() && end.choices.empty()) {
    return print_document(call, try_parse_json<json>(end.document));
  }
  if (one) return emit("\n");
  for (const auto& [index, text] : end.choices) {
    emit("--- choice " + std::to_string(index) + "\n" + text + "\n");
  }
}

/// Says on a terminal how much it was.
void say_request(const Call& call, const remote::Generated& end) {
  if (call.json || call.quiet || isatty(STDERR_FILENO) != 1) return;
  const json request = request_of(end);
  const json usage = request.value("usage", json::object());
  std::fprintf(stderr, "[request %s, %lld tokens, seed %llu]\n", end.request_id.c_str(),
               static_cast<long long>(usage.value("completion_tokens", std::int64_t{0})),
               static_cast<unsigned long long>(request.value("seed", std::uint64_t{0})));
}

/// Prints the text as it comes: of a single choice at once, of several when all are there.
int stream_and_print(const Call& call, const remote::StreamSource& source, bool one) {
  const InterruptGuard guard;
  const auto on_text = [&](int, std::string_view text) {
    if (one && !call.json) emit(text);
  };
  const auto interrupted = [] { return !check_interrupt("run"); };
  const auto answer = remote::generate(*call.remote, source, on_text, interrupted);
  if (const auto* failure = std::get_if<client::Failure>(&answer)) {
    return report_refusal(call, *failure);
  }
  const auto& end = std::get<remote::Generated>(answer);
  print_rest(call, end, one);
  if (!source.path.empty()) say_request(call, end);
  return report_end(call, end);
}

}  // namespace

int run_over_http(const Call& call, const std::string& prompt) {
  if (const auto error = refuse_flags(call)) return report_error(call, *error);
  const auto tokens = tokens_of(call, prompt);
  if (const auto* failure = std::get_if<client::Failure>(&tokens)) {
    return report_refusal(call, *failure);
  }
  const json body = completion_body(call, std::get<json>(tokens));
  return stream_and_print(call, {"/v1/completions", body.dump(), ""}, true);
}

int tail_over_http(const Call& call, const std::string& id) {
  const bool plain = std::ranges::all_of(id, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
  });
  if (!plain || id.empty()) return report_error(call, Errc::kNotFound, "no request with id " + id);
  const auto request = remote::ask(*call.remote, "/v1/requests/" + id);
  if (const auto* failure = std::get_if<client::Failure>(&request)) {
    return report_refusal(call, *failure);
  }
  const std::size_t choices = std::get<json>(request).value("choices", json::array()).size();
  return stream_and_print(call, {"", "", id}, choices <= 1);
}

}  // namespace holdfast::cli
