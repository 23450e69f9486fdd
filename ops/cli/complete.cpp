// Names for the completion scripts, a line each. Quick, and silent whatever is wrong: an error must
// not appear in the middle of a command line.

#include <sqlite3.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "control/core/config.h"
#include "ops/cli/verb_functions.h"
#include "ops/cli/verbs.h"
#include "ops/model_tools/synth.h"
#include "ops/serve/daemon.h"
#include "shared/base/json_text.h"

namespace holdfast::cli {
namespace {

constexpr int kBusyMs = 50;

/// Prints the first column of the rows, read-only from the database itself: that needs no daemon.
void print_rows(const Call& call, const char* sql) {
  sqlite3* db = nullptr;
  const std::string path = call.state_dir + "/control.db";
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK) {
    sqlite3_busy_timeout(db, kBusyMs);
    sqlite3_prepare_v2(db, sql, -1, &statement, nullptr);
  }
  while (statement != nullptr && sqlite3_step(statement) == SQLITE_ROW) {
    const unsigned char* text = sqlite3_column_text(statement, 0);
    if (text != nullptr) std::printf("%s\n", reinterpret_cast<const char*>(text));
  }
  sqlite3_finalize(statement);
  sqlite3_close(db);
}

/// Prints the connected workers, which the daemon alone knows.
void print_workers(const Call& call) {
  if (!daemon_listens(call.state_dir, std::chrono::milliseconds(0))) return;
  const auto client = connect_operator(call, std::chrono::milliseconds(500));
  if (!client) return;
  const auto answer = client.value()->op(client::AllTenants::local(), "workers.list", "{}");
  const auto* text = std::get_if<std::string>(&answer);
  if (text == nullptr) return;
  const auto document = try_parse_json<nlohmann::json>(*text);
  if (!document.is_object()) return;
  for (const auto& worker : document.value("workers", nlohmann::json::array())) {
    std::printf("%s\n", worker.value("key", "").c_str());
  }
}

}  // namespace

namespace {

// A name stands for its key where no other key has it.
constexpr std::pair<std::string_view, const char*> kQueries[] = {
    {"models", "SELECT name FROM models ORDER BY name"},
    {"aliases", "SELECT name FROM aliases ORDER BY name"},
    {"keys",
     "SELECT id FROM objects WHERE kind = 'key' UNION ALL"
     " SELECT body ->> 'name' FROM objects WHERE kind = 'key' GROUP BY body ->> 'name'"
     " HAVING count(*) = 1"},
    {"webhooks",
     "SELECT id FROM objects WHERE kind = 'webhook' UNION ALL"
     " SELECT body ->> 'url' FROM objects WHERE kind = 'webhook' GROUP BY body ->> 'url'"
     " HAVING count(*) = 1"},
    {"deliveries",
     "SELECT id FROM objects WHERE kind IN ('webhook.due', 'webhook.done')"
     " ORDER BY seq DESC LIMIT 50"},
    {"chats", "SELECT id FROM objects WHERE kind = 'chat' ORDER BY seq DESC"},
    {"requests", "SELECT id FROM requests ORDER BY seq DESC LIMIT 50"},
    {"versions", "SELECT version FROM config_versions ORDER BY version DESC LIMIT 50"},
};

void print_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
}

void print_knobs(const Call& /*call*/) {
  for (const core::Knob& knob : core::knobs()) {
    std::printf("%.*s\n", static_cast<int>(knob.name.size()), knob.name.data());
  }
}

void print_shapes(const Call& /*call*/) {
  std::printf("list\n");
  print_lines(synth_shapes());
}

void print_types(const Call& /*call*/) {
  print_lines(synth_types());
}

void print_verbs(const Call& /*call*/) {
  for (const Verb& verb : verb_table()) {
    if (!verb.hidden) std::printf("%s\n", verb.path);
  }
}

constexpr std::pair<std::string_view, void (*)(const Call&)> kPrinters[] = {
    {"workers", print_workers}, {"knobs", print_knobs}, {"shapes", print_shapes},
    {"types", print_types},     {"verbs", print_verbs},
};

}  // namespace

int complete(const Call& call) {
  const std::string what = call.text("WHAT");
  for (const auto& [name, sql] : kQueries) {
    if (what == name) print_rows(call, sql);
  }
  for (const auto& [name, print] : kPrinters) {
    if (what == name) print(call);
  }
  return kExitDone;
}

}  // namespace holdfast::cli
