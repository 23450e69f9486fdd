// The database as a whole: check, backup, restore, sizes.

#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "ops/cli/db_verbs.h"
#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/serve/offline_change.h"
#include "ops/terminal/output.h"
#include "shared/base/json_text.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;
constexpr auto kCopyTimeout = std::chrono::minutes(10);

std::string absolute(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::absolute(path, ignored).lexically_normal().string();
}

/// Runs a verb that holdfastd carries out by itself, whether a daemon runs or not.
int run_alone(const Call& call, const std::string& verb, const json& args) {
  const auto answer = operate_offline(call.state_dir, verb, args.dump());
  if (!answer) return report_error(call, answer.error());
  if (!answer->ok) return report_refusal(call, answer->refusal);
  print_document(call, try_parse_json<json>(answer->result));
  return kExitDone;
}

}  // namespace

int db_check(const Call& call) {
  if (call.has("FILE")) return run_alone(call, "db.check", {{"path", absolute(call.text("FILE"))}});
  if (!has_database(call.state_dir)) {
    return report_error(call, Errc::kNotFound, "no database in " + call.state_dir);
  }
  const bool repair = call.has("repair");
  if (!daemon_listens(call.state_dir)) {
    return run_alone(call, "db.check", {{"repair", repair}});
  }
  if (repair) {
    return report_error(call, Errc::kConflict,
                        "db check --repair writes to the database: stop the daemon before");
  }
  // A long read of the live file would keep its log from being checkpointed: a copy is checked.
  const std::string copy = absolute(call.state_dir) + "/check-" + std::to_string(getpid()) + ".db";
  int exit = kExitDone;
  if (!operate(call, "db.backup", {{"path", copy}}, exit, kCopyTimeout)) return exit;
  exit = run_alone(call, "db.check", {{"path", copy}});
  unlink(copy.c_str());
  return exit;
}

int db_backup(const Call& call) {
  int exit = kExitDone;
  const std::string path = absolute(call.text("FILE"));
  const auto made = operate(call, "db.backup", {{"path", path}}, exit, kCopyTimeout);
  if (!made) return exit;
  // A backup that was never read proves nothing: it is checked before anybody relies on it.
  const auto checked = operate_offline(call.state_dir, "db.check", json{{"path", path}}.dump());
  if (!checked) return report_error(call, checked.error());
  if (!checked->ok) return report_refusal(call, checked->refusal);
  const std::string line =
      path + ": " + human_bytes(made->value("bytes", 0.0)) + ", complete and checked";
  json document = *made;
  document["check"] = try_parse_json<json>(checked->result);
  document["check"].erase("path");
  print_change(call, document, line);
  return kExitDone;
}

int db_restore(const Call& call) {
  const std::string path = absolute(call.text("FILE"));
  const auto answer = operate_offline(call.state_dir, "db.restore", json{{"path", path}}.dump());
  if (!answer) return report_error(call, answer.error());
  if (!answer->ok) return report_refusal(call, answer->refusal);
  print_change(call, try_parse_json<json>(answer->result), path + ": is the database now");
  return kExitDone;
}

int db_accept_loss(const Call& call) {
  return operate_and_say(call, "db.accept_loss", json::object(), "the loss is accepted");
}

int db_stats(const Call& call) {
  return operate_and_print(call, "db.stats", json::object());
}

}  // namespace holdfast::cli
