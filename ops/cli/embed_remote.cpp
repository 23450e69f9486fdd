// `holdfast embed MODEL` against a Holdfast elsewhere: POST /v1/embeddings.

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "ops/cli/run_remote.h"
#include "ops/cli/text_input.h"
#include "ops/cli/tokenize.h"
#include "ops/terminal/output.h"
#include "shared/remote/generation.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

/// Refuses flags for the engine of this machine.
std::optional<Error> refuse_flags(const Call& call) {
  for (const char* flag : {"threads", "device", "kernels", "kv-type"}) {
    if (!call.has(flag)) continue;
    return Error{Errc::kUsage, std::string("embed: --") + flag +
                                   " is for a file of this machine, and " + call.remote->url +
                                   " is asked for a model of that server"};
  }
  if (!call.list("tokens").empty() && !call.list("TEXT").empty()) {
    return Error{Errc::kUsage, "embed: texts and --tokens exclude each other over HTTP"};
  }
  return std::nullopt;
}

/// The body of the POST.
Result<json> embedding_body(const Call& call) {
  json input = json::array();
  for (const std::string& list : call.list("tokens")) {
    HOLDFAST_TRY(const auto ids, parse_ids(list));
    input.push_back(ids);
  }
  std::vector<std::string> texts = call.list("TEXT");
  if (texts == std::vector<std::string>{"-"} || (texts.empty() && input.empty())) {
    HOLDFAST_TRY(std::string text, text_argument(call, "TEXT"));
    texts = {std::move(text)};
  }
  for (const std::string& text : texts) input.push_back(text);
  json body = {{"model", call.text("FILE")},
               {"input", std::move(input)},
               {"encoding_format", "float"},
               {"normalize", !call.has("no-normalize")}};
  if (call.has("pooling")) body["pooling"] = call.text("pooling");
  return body;
}

}  // namespace

int embed_over_http(const Call& call) {
  if (const auto error = refuse_flags(call)) return report_error(call, *error);
  const auto body = embedding_body(call);
  if (!body) return report_error(call, body.error());
  const std::string text = body->dump(-1, ' ', false, json::error_handler_t::replace);
  const auto answer = remote::ask(*call.remote, "/v1/embeddings", text);
  if (const auto* failure = std::get_if<client::Failure>(&answer)) {
    return report_refusal(call, *failure);
  }
  json rows = json::array();
  const json& document = std::get<json>(answer);
  for (const json& row : document.value("data", json::array())) {
    rows.push_back(
        {{"index", row.value("index", 0)}, {"embedding", row.value("embedding", json())}});
  }
  const json usage = document.value("usage", json::object());
  const json out = {{"model", document.value("model", call.text("FILE"))},
                    {"tokens", usage.value("prompt_tokens", std::int64_t{0})},
                    {"data", std::move(rows)}};
  std::printf("%s\n", out.dump(call.json ? -1 : 1).c_str());
  return kExitDone;
}

}  // namespace holdfast::cli
