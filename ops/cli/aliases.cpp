// The verb `models alias`: names that lead to models, canaries, and the history of decisions.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "ops/cli/offline.h"
#include "ops/cli/verb_functions.h"
#include "ops/cli/who.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

json named(const Call& call) {
  return {{"name", call.text("NAME")}, {"who", operator_name()}};
}

/// Reports a change that was abandoned or rolled back, by the newest row of the history.
int outcome(const Call& call) {
  int exit = kExitDone;
  json args = named(call);
  args["limit"] = 1;
  const auto history = operate(call, "models.alias_history", args, exit);
  if (!history) return exit;
  const json& row = history->at("history").at(0);
  const std::string action = row.value("action", "");
  if (action != "abandoned" && action != "canary rolled back") return kExitDone;
  return report_error(call, Errc::kModelFailed,
                      "models alias " + call.text("NAME") + ": " + action +
                          ", the old targets stay: " + row.value("reason", ""));
}

/// "chat: demo 90 %, other 10 %", with what the alias waits for.
std::string line_of(const json& alias) {
  std::string line = alias.value("name", "") + ": " + alias.value("stands_for", "");
  const json waits = alias.value("waits_for", json());
  return waits.is_string() ? line + ", waits for " + waits.get<std::string>() : line;
}

int change(const Call& call, const std::string& verb, const json& args) {
  int exit = kExitDone;
  const auto changed = operate(call, verb, args, exit);
  if (changed) print_change(call, *changed, line_of(*changed));
  return exit;
}

/// Waits until what the alias waits for is ready or has failed. Without a daemon nothing is loaded:
/// the next start goes on with it.
int wait_and_print(const Call& call, json document) {
  while (!call.has("no-wait") && daemon_answers(call)) {
    int exit = kExitDone;
    const auto model = operate(call, "models.show", named(call), exit);
    if (!model) return exit;
    document = *model;
    const bool loads =
        model->contains("canary") && model->at("canary").value("state", "") == "loading";
    if (!model->contains("waits_for") && !loads) {
      exit = outcome(call);
      if (exit != kExitDone) return exit;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  print_change(call, document, line_of(document));
  return kExitDone;
}

int change_and_wait(const Call& call, const std::string& verb, const json& args) {
  int exit = kExitDone;
  const auto changed = operate(call, verb, args, exit);
  if (!changed) return exit;
  return wait_and_print(call, *changed);
}

int set_targets(const Call& call) {
  json args = named(call);
  args["to"] = call.text("to");
  args["when_ready"] = call.has("when-ready");
  if (!call.has("when-ready")) return change(call, "models.alias", args);
  return change_and_wait(call, "models.alias", args);
}

int begin_canary(const Call& call) {
  const std::string text = call.text("canary");
  const std::size_t equals = text.rfind('=');
  const std::string percent = equals == std::string::npos ? "" : text.substr(equals + 1);
  const bool number = !percent.empty() && percent.size() < 4 &&
                      percent.find_first_not_of("0123456789") == std::string::npos;
  if (!number) {
    return report_error(call, Errc::kUsage,
                        "models alias: --canary \"" + text + "\": expected MODEL=PERCENT");
  }
  json args = named(call);
  args["model"] = text.substr(0, equals);
  args["percent"] = std::stoi(percent);
  if (call.has("window")) {
    args["window_ms"] = static_cast<std::int64_t>(call.real("window") * 1000);
  }
  constexpr std::pair<const char*, const char*> kBounds[] = {
      {"min-requests", "min_requests"},        {"clear-errors", "clear_errors"},
      {"max-error-rate", "max_error_percent"}, {"max-refusal-rate", "max_refusal_percent"},
      {"max-queue", "max_queue_percent"},      {"max-ttft", "max_ttft_percent"},
      {"max-itl", "max_itl_percent"},          {"ttft-slack-ms", "ttft_slack_ms"},
      {"itl-slack-ms", "itl_slack_ms"},        {"promote-after", "promote_after"}};
  for (const auto& [flag, name] : kBounds) {
    if (call.has(flag)) args[name] = call.integer(flag);
  }
  return change_and_wait(call, "models.canary", args);
}

int show_history(const Call& call) {
  json args = named(call);
  if (call.has("limit")) args["limit"] = call.integer("limit");
  int exit = kExitDone;
  auto history = operate(call, "models.alias_history", args, exit);
  if (!history) return exit;
  RenderOptions options;
  options.nested["history"] = {"at_ms", "who", "action", "from", "to", "reason"};
  options.nested["canaries"] = {"id",         "model",    "state", "windows",
                                "started_ms", "ended_ms", "reason"};
  options.nested["windows"] = {"canary",         "window",         "decision",
                               "canary_numbers", "stable_numbers", "reason"};
  if (!call.json) {  // one cell for each side
    for (json& row : history->at("windows")) {
      for (const char* side : {"canary", "stable"}) {
        const json& n = row.at(std::string(side) + "_side");
        row[std::string(side) + "_numbers"] =
            n.at("accepted").dump() + " in, " + n.at("refused").dump() + " refused, " +
            n.at("failed").dump() + "+" + n.at("interrupted").dump() + " of " +
            n.at("ended").dump() + " failed, ttft " +
            std::to_string(n.at("ttft_p95_us").get<std::int64_t>() / 1000) + " ms, itl " +
            std::to_string(n.at("itl_p95_us").get<std::int64_t>() / 1000) + " ms, queue " +
            n.at("queue_percent").dump() + " %";
      }
    }
  }
  print_document(call, *history, options);
  return kExitDone;
}

}  // namespace

namespace {

int remove_alias(const Call& call) {
  return operate_and_say(call, "models.alias_remove", named(call), call.text("NAME") + ": removed");
}

int roll_back(const Call& call) {
  return change(call, "models.canary_rollback", named(call));
}

int promote(const Call& call) {
  return change(call, "models.canary_promote", named(call));
}

constexpr std::pair<const char*, int (*)(const Call&)> kActions[] = {
    {"to", set_targets},     {"remove", remove_alias}, {"canary", begin_canary},
    {"rollback", roll_back}, {"promote", promote},     {"history", show_history},
};

}  // namespace

int models_alias(const Call& call) {
  const auto count = std::count_if(std::begin(kActions), std::end(kActions),
                                   [&](const auto& action) { return call.has(action.first); });
  if (count > 1 || (count == 1 && !call.has("NAME"))) {
    return report_error(call, Errc::kUsage,
                        "models alias: expected NAME and at most one of --to, --remove, --canary, "
                        "--rollback, --promote, --history");
  }
  for (const auto& [flag, act] : kActions) {
    if (call.has(flag)) return act(call);
  }
  if (call.has("NAME")) return read_and_print(call, "models.show", named(call));
  RenderOptions options;
  options.nested["aliases"] = {"name", "stands_for", "changed_ms"};
  options.columns = {"name", "stands_for", "changed_ms"};
  options.when_empty = "no aliases; make one with `holdfast models alias NAME --to MODEL`";
  return operate_and_print(call, "models.aliases", json::object(), options);
}

}  // namespace holdfast::cli
