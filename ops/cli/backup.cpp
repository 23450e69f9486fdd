// db backup: a complete copy of the database, checked before it has its name. The daemon of this
// machine writes it to the file; from one elsewhere it is read over the network.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ops/cli/backup_file.h"
#include "ops/cli/copy_reader.h"
#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/serve/offline_change.h"
#include "ops/terminal/interrupt.h"
#include "ops/terminal/output.h"
#include "shared/base/json_text.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

constexpr auto kTimeout = std::chrono::minutes(10);  // also that a link may be cut
constexpr int kTries = 3;                            // of a file: the daemon was started again
constexpr std::size_t kCopyBytes = 1 << 20;          // at a time

std::string absolute(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::absolute(path, ignored).lexically_normal().string();
}

bool is_standard_output(const Call& call) {
  return call.text("FILE") == "-";
}

/// Reads the whole copy: one that was never read proves nothing. Returns the document of the check.
Result<json> check_copy(const Call& call, const std::string& path) {
  HOLDFAST_TRY(const wire::OpResult checked,
               operate_offline(call.state_dir, "db.check", json{{"path", path}}.dump()));
  if (!checked.ok) return Error{checked.refusal.code, checked.refusal.message};
  json document = try_parse_json<json>(checked.result);
  if (!document.is_object()) return Error{Errc::kInternal, "db.check: its answer is not JSON"};
  document.erase("path");
  return document;
}

void print_made(const Call& call, const json& document, const std::string& path) {
  print_change(call, document,
               path + ": " + human_bytes(document.value("bytes", 0.0)) + ", complete and checked");
}

/// Has the daemon of this machine write the copy, or writes it where none runs.
int back_up_here(const Call& call) {
  int exit = kExitDone;
  const std::string path = absolute(call.text("FILE"));
  auto made = operate(call, "db.backup", {{"path", path}}, exit, kTimeout);
  if (!made) return exit;
  auto checked = check_copy(call, path);
  if (!checked) return report_error(call, checked.error());
  (*made)["check"] = std::move(*checked);
  print_made(call, *made, path);
  return kExitDone;
}

/// Copies a file to standard output.
Result<void> print_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string block(kCopyBytes, '\0');
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    const auto bytes = static_cast<std::size_t>(file.gcount());
    HOLDFAST_CHECKED(write_all(STDOUT_FILENO, {block.data(), bytes}, "standard output"));
  }
  if (file.eof()) return {};
  return Error{Errc::kIo, "db backup: read " + path};
}

/// Prints a copy that the daemon of this machine makes in the state directory. A killed call leaves
/// it there, and the next start removes it (control/store/backup.h).
int print_from_here(const Call& call) {
  int exit = kExitDone;
  const std::string copy = absolute(call.state_dir) + "/check-" + std::to_string(getpid()) + ".db";
  if (!operate(call, "db.backup", {{"path", copy}}, exit, kTimeout)) return exit;
  const auto checked = check_copy(call, copy);
  const Result<void> printed = checked ? print_file(copy) : Result<void>(checked.error());
  unlink(copy.c_str());
  return printed ? kExitDone : report_error(call, printed.error());
}

Result<json> receive(const Call& call, client::Client& client, ProgressView& view) {
  const std::string path = absolute(call.text("FILE"));
  HOLDFAST_TRY(const std::unique_ptr<BackupFile> file, BackupFile::create(path));
  for (int i = 1;; ++i) {
    CopyReader reader(client, view, path);
    HOLDFAST_TRY(const CopyFacts facts, reader.begin());
    HOLDFAST_CHECKED(file->begin(facts.bytes));
    const auto read =
        reader.read(facts, [&](std::string_view bytes) { return file->write(bytes); });
    if (!read && read.error().code == Errc::kNotFound && i < kTries) continue;
    HOLDFAST_CHECKED(read);
    HOLDFAST_CHECKED(file->sync());
    HOLDFAST_TRY(json checked, check_copy(call, file->part()));
    HOLDFAST_CHECKED(file->finish());
    return json{{"path", path},
                {"pages", facts.pages},
                {"bytes", facts.bytes},
                {"sha256", facts.sha256},
                {"check", std::move(checked)}};
  }
}

Result<void> print_from_elsewhere(client::Client& client, ProgressView& view) {
  CopyReader reader(client, view, "backup");
  HOLDFAST_TRY(const CopyFacts facts, reader.begin());
  const auto printed = reader.read(facts, [](std::string_view bytes) {
    return write_all(STDOUT_FILENO, bytes, "standard output");
  });
  if (printed) return {};
  return Error{printed.error().code,
               printed.error().what + "; what was written to standard output is not a whole copy"};
}

/// Reads the copy of a daemon elsewhere.
int back_up_elsewhere(const Call& call) {
  // A question that changes nothing says soon whether the server answers, and takes this key.
  int exit = kExitDone;
  if (!operate(call, "db.copy_end", {{"copy", client::new_request_id()}}, exit)) return exit;
  auto client = connect_operator(call, kTimeout);
  if (!client) return report_error(call, client.error());
  const InterruptGuard guard;
  ProgressView view(call.quiet || call.json);
  if (is_standard_output(call)) {
    const auto printed = print_from_elsewhere(**client, view);
    view.clear();
    return printed ? kExitDone : report_error(call, printed.error());
  }
  const auto made = receive(call, **client, view);
  view.clear();
  if (!made) return report_error(call, made.error());
  print_made(call, *made, made->at("path").get<std::string>());
  return kExitDone;
}

}  // namespace

int db_backup(const Call& call) {
  signal(SIGPIPE, SIG_IGN);  // whoever reads standard output may end: the copy has to be removed
  if (is_standard_output(call) && isatty(STDOUT_FILENO) == 1) {
    return report_error(call, Errc::kUsage,
                        "db backup -: standard output is a terminal; name a file, or send it on");
  }
  if (is_standard_output(call) && call.json) {
    return report_error(call, Errc::kUsage,
                        "db backup -: the copy is on standard output; leave out --json");
  }
  if (!call.listener.empty()) return back_up_elsewhere(call);
  return is_standard_output(call) ? print_from_here(call) : back_up_here(call);
}

}  // namespace holdfast::cli
