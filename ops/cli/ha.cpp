// ha status, ha switch, ha promote: two machines as one service. The standby has no daemon, but a
// socket of its own.

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"
#include "shared/base/json_text.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

// A standby that takes over closes its socket for good.
constexpr auto kPatience = std::chrono::milliseconds(500);

/// Asks the standby of this state directory.
client::Answer<std::string> ask_standby(const Call& call, const std::string& verb,
                                        const json& args) {
  client::Options options;
  options.timeout = std::chrono::seconds(5);
  options.patience_without_daemon = kPatience;
  const auto client = client::Client::connect(standby_endpoint(call.state_dir), options);
  if (!client) return client::Failure{client.error().code, client.error().what};
  return (*client)->op(client::AllTenants::local(), verb, args.dump());
}

/// True while a standby runs on the state directory.
bool is_standby(const Call& call) {
  return call.listener.empty() && !call.remote && standby_listens(call.state_dir);
}

/// Prints the document. With --check the exit code says whether the machine does its part.
int print_status(const Call& call, const json& document) {
  print_document(call, document);
  if (!call.has("check") || !document.is_object()) return kExitDone;
  const bool ready =
      document.value("role", "") != "standby" || document.value("state", "") == "in_step";
  return ready ? kExitDone : kExitFailed;
}

}  // namespace

int ha_status(const Call& call) {
  if (is_standby(call)) {
    const auto answer = ask_standby(call, "ha.status", json::object());
    if (const auto* text = std::get_if<std::string>(&answer)) {
      return print_status(call, try_parse_json<json>(*text));
    }
    // The standby took over meanwhile, unless there is another trouble.
    const auto& failure = std::get<client::Failure>(answer);
    if (failure.code != Errc::kUnreachable) return report_refusal(call, failure);
  }
  int exit = kExitDone;
  const auto document = operate(call, "ha.status", json::object(), exit);
  return document ? print_status(call, *document) : exit;
}

int ha_switch(const Call& call) {
  return operate_and_say(call, "ha.switch", json::object(), "the standby takes over");
}

int ha_promote(const Call& call) {
  if (!is_standby(call)) {
    return report_error(call, Errc::kConflict,
                        "ha promote: no standby runs on state directory " + call.state_dir +
                            "; run it on the standby's machine");
  }
  const auto answer = ask_standby(call, "ha.promote", {{"force", call.has("force")}});
  if (const auto* failure = std::get_if<client::Failure>(&answer)) {
    return report_refusal(call, *failure);
  }
  print_change(call, try_parse_json<json>(std::get<std::string>(answer)),
               "this machine is the primary now");
  return kExitDone;
}

}  // namespace holdfast::cli
