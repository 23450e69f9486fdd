// The database as a whole: check, backup, restore, sizes.

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
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

/// Gives a file to this user and group, as root may.
Result<void> give(const std::string& path, const struct stat& owner) {
  if (lchown(path.c_str(), owner.st_uid, owner.st_gid) == 0) return {};
  return Error{Errc::kIo, "give " + path + " to the owner of its folder: " + std::strerror(errno)};
}

/// Gives what a restore by root has made to the owner of the state directory: the service has a
/// user of its own. holdfastd itself may not, as it is confined.
Result<void> give_restored_to_owner(const std::string& state_dir) {
  struct stat owner {};
  if (geteuid() != 0 || stat(state_dir.c_str(), &owner) != 0 || owner.st_uid == 0) return {};
  std::error_code failed;
  for (auto entry = std::filesystem::recursive_directory_iterator(state_dir, failed);
       !failed && entry != std::filesystem::end(entry); entry.increment(failed)) {
    const std::string relative = entry->path().lexically_relative(state_dir).string();
    if (!relative.starts_with("control.") && !relative.starts_with("before-restore-")) continue;
    HOLDFAST_CHECKED(give(entry->path().string(), owner));
  }
  return {};
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

int db_restore(const Call& call) {
  const std::string path = absolute(call.text("FILE"));
  const auto answer = operate_offline(call.state_dir, "db.restore", json{{"path", path}}.dump());
  if (!answer) return report_error(call, answer.error());
  if (!answer->ok) return report_refusal(call, answer->refusal);
  if (const auto given = give_restored_to_owner(call.state_dir); !given) {
    return report_error(call, given.error());
  }
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
