// Names for the completion scripts, a line each. Quick, and silent whatever is wrong: an error must
// not appear in the middle of a command line.

#include <sqlite3.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "control/core/config.h"
#include "ops/cli/daemon.h"
#include "ops/cli/synth.h"
#include "ops/cli/verb_functions.h"
#include "ops/cli/verbs.h"
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

int complete(const Call& call) {
  const std::string what = call.text("WHAT");
  if (what == "models") print_rows(call, "SELECT name FROM models ORDER BY name");
  if (what == "aliases") print_rows(call, "SELECT name FROM aliases ORDER BY name");
  // A name stands for its key where no other key has it.
  if (what == "keys") {
    print_rows(call,
               "SELECT id FROM objects WHERE kind = 'key' UNION ALL"
               " SELECT body ->> 'name' FROM objects WHERE kind = 'key' GROUP BY body ->> 'name'"
               " HAVING count(*) = 1");
  }
  if (what == "webhooks") {
    print_rows(call,
               "SELECT id FROM objects WHERE kind = 'webhook' UNION ALL"
               " SELECT body ->> 'url' FROM objects WHERE kind = 'webhook' GROUP BY body ->> 'url'"
               " HAVING count(*) = 1");
  }
  if (what == "deliveries") {
    print_rows(call,
               "SELECT id FROM objects WHERE kind IN ('webhook.due', 'webhook.done')"
               " ORDER BY seq DESC LIMIT 50");
  }
  if (what == "requests") print_rows(call, "SELECT id FROM requests ORDER BY seq DESC LIMIT 50");
  if (what == "versions") {
    print_rows(call, "SELECT version FROM config_versions ORDER BY version DESC LIMIT 50");
  }
  if (what == "workers") print_workers(call);
  if (what == "knobs") {
    for (const core::Knob& knob : core::knobs()) {
      std::printf("%.*s\n", static_cast<int>(knob.name.size()), knob.name.data());
    }
  }
  if (what == "shapes") {
    std::printf("list\n");
    for (const std::string& name : synth_shapes()) std::printf("%s\n", name.c_str());
  }
  if (what == "types") {
    for (const std::string& name : synth_types()) std::printf("%s\n", name.c_str());
  }
  if (what == "verbs") {
    for (const Verb& verb : verb_table()) {
      if (!verb.hidden) std::printf("%s\n", verb.path);
    }
  }
  return kExitDone;
}

}  // namespace holdfast::cli
