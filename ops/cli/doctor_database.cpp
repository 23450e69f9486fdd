// Checks of control.db, read-only and short: identity, version, damage, clock, models.

#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/store/store.h"
#include "ops/cli/doctor.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"
#include "schema_version.h"

namespace holdfast::cli {
namespace {

constexpr std::int64_t kLongLogBytes = 256 << 20;
constexpr std::int64_t kAtLeastMs = 1'735'689'600'000;  // 2025: no clock of ours is earlier
constexpr int kBusyMs = 500;

class Reader {
 public:
  explicit Reader(const std::string& path) {
    if (sqlite3_open_v2(path.c_str(), &db_, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK) {
      sqlite3_busy_timeout(db_, kBusyMs);
      (void)rows("PRAGMA query_only=1");
    }
  }
  ~Reader() { sqlite3_close(db_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  using Row = std::map<std::string, std::string>;  // texts by the columns' names
  /// Returns every row; error() is set on failure.
  std::vector<Row> rows(const char* sql) {
    std::vector<Row> all;
    sqlite3_stmt* raw = nullptr;
    int rc = sqlite3_prepare_v2(db_, sql, -1, &raw, nullptr);
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(raw, &sqlite3_finalize);
    while (rc == SQLITE_OK && (rc = sqlite3_step(raw)) == SQLITE_ROW) {
      Row& row = all.emplace_back();
      for (int i = 0; i < sqlite3_column_count(raw); ++i) {
        const unsigned char* text = sqlite3_column_text(raw, i);
        row[sqlite3_column_name(raw, i)] =
            text == nullptr ? "" : reinterpret_cast<const char*>(text);
      }
      rc = SQLITE_OK;
    }
    if (rc != SQLITE_DONE) error_ = sqlite3_errmsg(db_);
    return all;
  }
  /// Returns the only column of the first row; empty if there is none.
  std::string one(const char* sql) {
    const auto all = rows(sql);
    return all.empty() || all[0].empty() ? std::string() : all[0].begin()->second;
  }
  std::int64_t number(const char* sql) { return std::strtoll(one(sql).c_str(), nullptr, 10); }
  const std::string& error() const { return error_; }

 private:
  sqlite3* db_ = nullptr;
  std::string error_;
};

std::string database_of(const Patient& p) {
  return p.state + "/control.db";
}

bool has_database(const Patient& p) {
  return access(database_of(p).c_str(), F_OK) == 0;
}

std::int64_t wall_now_ms() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

void check_clock_state(Patient& p) {
  timex state{};  // modes 0: only asks
  const int result = adjtimex(&state);
  if (result < 0 || result == TIME_ERROR || (state.status & STA_UNSYNC) != 0) {
    p.warn("clock synchronisation", "the kernel says that nothing keeps the clock right",
           "chrony, systemd-timesyncd or ntpd",
           "install one: times in the database and tokens of clients rely on it");
    return;
  }
  p.ok("clock synchronisation",
       "within " + std::to_string(state.maxerror / 1000) + " ms, says the kernel");
}

/// Lets the daemon read every table's index: a check from here would hold back its log's
/// checkpoints.
std::string ask_for_stats(const Patient& p) {
  auto client = connect_operator(p.call, std::chrono::seconds(10));
  if (!client) return client.error().what;
  const auto answer = client.value()->op(client::AllTenants::local(), "db.stats", "{}");
  const auto* refused = std::get_if<client::Failure>(&answer);
  return refused == nullptr ? "ok" : refused->message;
}

struct ModelFile {
  std::string name, path;
  std::int64_t size = 0, mtime_ns = 0;
};

void check_model(Patient& p, const ModelFile& model) {
  struct stat info {};
  const std::string what = "model " + model.name;
  const std::string again = "`holdfast models add " + model.name + " FILE` registers another file";
  if (stat(model.path.c_str(), &info) != 0) {
    p.fail(what, model.path + " is not there", "the registered file",
           "bring it back, or `holdfast models remove " + model.name + "`");
  } else if (access(model.path.c_str(), R_OK) != 0) {
    p.fail(what, model.path + " cannot be read", "a file that this user may read",
           "chmod +r " + model.path);
  } else if (info.st_size != model.size) {
    p.fail(what, model.path + " has " + std::to_string(info.st_size) + " bytes",
           std::to_string(model.size) + " as registered", again);
  } else if (info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec != model.mtime_ns) {
    p.fail(what, model.path + " was changed since it was registered", "the registered file",
           "if the content is the same, add it again under its name: " + again);
  } else {
    p.ok(what, model.path);
  }
}

}  // namespace

namespace {

constexpr const char* kRestore = "`holdfast db restore BACKUP`, or move it away";

/// Returns false, after the finding, if the file is no database of this program.
bool check_identity(Patient& p, Reader& db) {
  const std::int64_t id = db.number("PRAGMA application_id");
  const std::int64_t version = db.number("PRAGMA user_version");
  const std::string path = database_of(p);
  if (!db.error().empty()) {
    p.fail("database", path + ": " + db.error(), "a database that can be read", kRestore);
    return false;
  }
  if (id != store::kApplicationId) {
    p.fail("database", path + " has application id " + std::to_string(id),
           std::to_string(store::kApplicationId) + " (ours)", kRestore);
    return false;
  }
  if (version > kSchemaVersion) {
    p.fail("database", "version " + std::to_string(version),
           "at most " + std::to_string(kSchemaVersion),
           "it was used by a newer holdfast: install that, or restore a backup of before");
    return false;
  }
  if (version < kSchemaVersion) {
    p.warn("database", "version " + std::to_string(version), std::to_string(kSchemaVersion),
           p.served ? "the daemon is older than this program: restart it"
                    : "the next start brings it up; back it up before");
  }
  return true;
}

void check_log(Patient& p, Reader& db) {
  const std::string lost = db.one("SELECT value FROM flags WHERE name='log.lost'");
  if (!lost.empty() && !p.served) {  // a daemon reports it itself
    p.fail("database log", "its end is lost (groups expected, found, time: " + lost + ")",
           "every group that was synced",
           "`holdfast db restore BACKUP`, or `holdfast db accept-loss` to go on without it");
  }
  std::error_code none;
  const auto log = std::filesystem::file_size(database_of(p) + "-wal", none);
  if (!none && static_cast<std::int64_t>(log) > kLongLogBytes) {
    p.warn("database log", human_bytes(static_cast<double>(log)), "less than 256 MiB",
           "something keeps control.db open for long: end such scripts");
  }
}

}  // namespace

void check_database(Patient& p) {
  if (!has_database(p)) return p.ok("database", "none yet");
  Reader db(database_of(p));
  if (!check_identity(p, db)) return;
  check_log(p, db);
  const std::string check = p.served ? ask_for_stats(p) : db.one("PRAGMA quick_check(1)");
  if (check != "ok") {
    p.fail("database", check.empty() ? db.error() : check, "a sound file", kRestore);
    return;
  }
  p.ok("database", "version " + std::to_string(db.number("PRAGMA user_version")) +
                       (p.served ? ", the daemon reads it" : ", quick_check finds nothing"));
}

void check_clock(Patient& p) {
  const std::int64_t now = wall_now_ms();
  std::int64_t newest = 0;
  if (has_database(p)) {
    Reader db(database_of(p));
    newest = std::max(
        db.number("SELECT max(started_ms) FROM epochs"),
        db.number("SELECT max(created_ms) FROM (SELECT created_ms FROM requests ORDER BY seq DESC "
                  "LIMIT 100)"));
  }
  if (now < kAtLeastMs) {
    p.fail("clock", human_time(now), "a date of today", "set the clock: timedatectl set-time …");
  } else if (now < newest - 1000) {
    p.fail("clock", human_time(now) + ", before the newest row of the database",
           "after " + human_time(newest),
           "set the clock: rows would be deleted too early or late, and ages would be wrong");
  } else {
    p.ok("clock", human_time(now));
  }
  check_clock_state(p);
}

void check_models(Patient& p) {
  if (!has_database(p)) return;
  Reader db(database_of(p));
  const auto rows = db.rows("SELECT name, path, size, mtime_ns FROM models ORDER BY name");
  if (rows.empty() && db.error().empty()) p.ok("models", "none is registered");
  for (const auto& row : rows) {
    const auto number = [&](const char* column) {
      return std::int64_t{std::strtoll(row.at(column).c_str(), nullptr, 10)};
    };
    check_model(p, {row.at("name"), row.at("path"), number("size"), number("mtime_ns")});
  }
}

}  // namespace holdfast::cli
