#include <cstdio>
#include <nlohmann/json.hpp>

#include "ops/cli/daemon.h"
#include "ops/cli/offline.h"
#include "ops/cli/output.h"
#include "ops/cli/text_stream.h"
#include "ops/cli/verb_functions.h"

namespace holdfast::cli {
namespace {

nlohmann::json by_id(const Call& call) {
  return {{"id", call.text("ID")}};
}

}  // namespace

int requests_list(const Call& call) {
  nlohmann::json args = nlohmann::json::object();
  if (call.has("limit")) args["limit"] = call.integer("limit");
  if (call.has("with-state")) args["state"] = call.text("with-state");
  RenderOptions options;
  options.columns = {"id",     "state",    "model",      "tenant",     "class", "prompt_tokens",
                     "tokens", "attempts", "created_ms", "finished_ms"};
  options.when_empty = "no requests";
  return read_and_print(call, "requests.list", args, options);
}

int requests_show(const Call& call) {
  return read_and_print(call, "requests.show", by_id(call));
}

int requests_cancel(const Call& call) {
  return operate_and_print(call, "requests.cancel", by_id(call));
}

int requests_requeue(const Call& call) {
  return operate_and_print(call, "requests.requeue", by_id(call));
}

int requests_move(const Call& call) {
  nlohmann::json args = by_id(call);
  args["priority"] = call.text("priority");
  return operate_and_print(call, "requests.move", args);
}

int requests_tail(const Call& call) {
  auto connected = connect_clients(call);
  if (!connected) return report_error(call, connected.error());
  const auto known = (*connected)->status(client::AllTenants::local(), call.text("ID"));
  if (const auto* failure = std::get_if<client::Failure>(&known))
    return report_refusal(call, *failure);
  const auto streamed = follow(**connected, std::get<wire::RequestInfo>(known), !call.json);
  if (const auto* failure = std::get_if<client::Failure>(&streamed)) {
    return report_refusal(call, *failure);
  }
  return report_end(call, std::get<Streamed>(streamed));
}

}  // namespace holdfast::cli
