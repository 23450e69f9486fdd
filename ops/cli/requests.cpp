#include <cstdio>
#include <nlohmann/json.hpp>

#include "ops/cli/offline.h"
#include "ops/cli/run_remote.h"
#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"
#include "ops/terminal/text_stream.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

/// Runs a verb that changes one request; `args` are its arguments besides the id.
int change(const Call& call, const std::string& verb, json args = json::object()) {
  const auto id = find_request(call, call.text("ID"));
  if (!id) return report_error(call, id.error());
  args["id"] = *id;
  int exit = kExitDone;
  const auto changed = operate(call, verb, args, exit);
  if (changed) print_change(call, *changed, *id + ": " + changed->value("state", "changed"));
  return exit;
}

}  // namespace

int requests_list(const Call& call) {
  json args = json::object();
  if (call.has("limit")) args["limit"] = call.integer("limit");
  if (call.has("with-state")) args["state"] = call.text("with-state");
  RenderOptions options;
  options.columns = {"id",     "state",    "model",      "tenant",     "class", "prompt_tokens",
                     "tokens", "attempts", "created_ms", "finished_ms"};
  options.when_empty = "no requests";
  return read_and_print(call, "requests.list", args, options);
}

int requests_show(const Call& call) {
  const auto id = find_request(call, call.text("ID"));
  if (!id) return report_error(call, id.error());
  return read_and_print(call, "requests.show", {{"id", *id}});
}

int requests_cancel(const Call& call) {
  return change(call, "requests.cancel");
}

int requests_requeue(const Call& call) {
  return change(call, "requests.requeue");
}

int requests_move(const Call& call) {
  return change(call, "requests.move", {{"priority", call.text("priority")}});
}

int requests_tail(const Call& call) {
  if (call.remote) return tail_over_http(call, *find_request(call, call.text("ID")));
  auto connected = connect_clients(call);
  if (!connected) return report_error(call, connected.error());
  const auto id = find_request(call, call.text("ID"));
  if (!id) return report_error(call, id.error());
  const auto request = (*connected)->status(client::AllTenants::local(), *id);
  if (const auto* failure = std::get_if<client::Failure>(&request))
    return report_refusal(call, *failure);
  const auto streamed = follow(**connected, std::get<wire::RequestInfo>(request), !call.json);
  if (const auto* failure = std::get_if<client::Failure>(&streamed)) {
    return report_refusal(call, *failure);
  }
  return report_end(call, std::get<Streamed>(streamed));
}

}  // namespace holdfast::cli
