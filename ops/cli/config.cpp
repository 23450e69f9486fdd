// The configuration: what is set, by whom, since when; and changes of it.

#include <nlohmann/json.hpp>

#include "ops/cli/verb_functions.h"
#include "ops/cli/who.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

/// "version 3: queue.max_requests 100000 -> 77; a restart is pending for …".
std::string change_line(const json& version) {
  std::string line = "version " + version.value("version", json(0)).dump() + ": ";
  const json change = version.value("change", json());
  line += change.is_string() ? change.get<std::string>() : "no value changed";
  std::string pending;
  for (const json& name : version.value("restart_pending", json::array())) {
    if (name.is_string()) pending += (pending.empty() ? "" : ", ") + name.get<std::string>();
  }
  if (!pending.empty()) line += "; in effect after a restart: " + pending;
  return line;
}

int change(const Call& call, const std::string& verb, json args) {
  args["who"] = operator_name();
  int exit = kExitDone;
  const auto version = operate(call, verb, args, exit);
  if (version) print_change(call, *version, change_line(*version));
  return exit;
}

}  // namespace

int config_list(const Call& call) {
  RenderOptions options;
  options.nested["config"] = {"name", "value", "effective", "default", "unit", "source", "help"};
  return operate_and_print(call, "config.list", json::object(), options);
}

int config_get(const Call& call) {
  int exit = kExitDone;
  const auto document = operate(call, "config.get", {{"name", call.text("NAME")}}, exit);
  if (!document) return exit;
  print_document(call, call.json ? *document : document->at("value"));
  return kExitDone;
}

int config_set(const Call& call) {
  json settings = json::object();
  for (const std::string& text : call.list("NAME=VALUE")) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return report_error(call, Errc::kUsage, "config set: \"" + text + "\": expected NAME=VALUE");
    }
    settings[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return change(call, "config.set", {{"settings", std::move(settings)}});
}

int config_unset(const Call& call) {
  return change(call, "config.unset", {{"names", call.list("NAMES")}});
}

int config_explain(const Call& call) {
  return operate_and_print(call, "config.explain", {{"name", call.text("NAME")}});
}

int config_history(const Call& call) {
  json args = json::object();
  if (call.has("limit")) args["limit"] = call.integer("limit");
  RenderOptions options;
  options.nested["history"] = {"version", "at_ms", "source", "who", "change"};
  return operate_and_print(call, "config.history", args, options);
}

int config_diff(const Call& call) {
  json args = json::object();
  if (call.has("FROM")) args["from"] = call.integer("FROM");
  if (call.has("TO")) args["to"] = call.integer("TO");
  return operate_and_print(call, "config.diff", args);
}

int config_rollback(const Call& call) {
  return change(call, "config.rollback", {{"version", call.integer("VERSION")}});
}

}  // namespace holdfast::cli
