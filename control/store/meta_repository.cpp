#include "control/store/meta_repository.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "control/store/damage.h"
#include "control/store/encode.h"

namespace holdfast::store {
namespace {

/// Reads the values of flags "PREFIX/KEY" that are set, by KEY.
Result<std::map<std::string, std::string>> flags_below(sqlite3* db, std::string_view prefix) {
  static constexpr Columns kBelow{"key", "value"};
  Select<kBelow> select;
  HOLDFAST_CHECKED(
      select.prepare(db,
                     "SELECT substr(name, length(?1) + 1) AS key, value FROM flags"
                     " WHERE substr(name, 1, length(?1)) = ?1 AND value NOT IN ('', '0')"));
  std::map<std::string, std::string> found;
  auto rows = select.rows();
  rows.bind(prefix);
  for (;;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) return found;
    found.emplace(rows.text("key"), rows.text("value"));
  }
}

}  // namespace

Result<void> MetaRepository::prepare() {
  sqlite3* db = connection_.get();
  HOLDFAST_CHECKED(insert_epoch_.prepare(db, "epochs"));
  HOLDFAST_CHECKED(insert_config_.prepare(db, "config_versions"));
  return put_flag_.prepare(db, "flags", "INSERT OR REPLACE");
}

Result<void> MetaRepository::insert_epoch(std::int64_t epoch, std::int64_t wall_ms,
                                          const std::string& program) {
  auto values = insert_epoch_.values();
  values.set("epoch", epoch).set("started_ms", wall_ms).set("pid", std::int64_t{getpid()});
  return values.set("program", program).run();
}

Result<void> MetaRepository::write(const core::PutFlag& c) {
  return put_flag_.values().set("name", c.name).set("value", c.value).run();
}

Result<void> MetaRepository::write(const core::InsertConfigVersion& c) {
  const std::string content = encode_config(c.version);
  auto values = insert_config_.values();
  values.set("version", c.version.version).set("at_ms", c.version.at_ms);
  return values.set("source", c.version.source).set("content", content).run();
}

Result<std::int64_t> MetaRepository::last_epoch() {
  return query_int(connection_.get(), "SELECT coalesce(max(epoch), 0) FROM epochs");
}

Result<void> MetaRepository::insert_secret(const std::string& name, std::string_view value) {
  Insert<kSecretColumns> insert;
  HOLDFAST_CHECKED(insert.prepare(connection_.get(), "secrets", "INSERT OR IGNORE"));
  return insert.values().set("name", name).set_blob("value", value).run();
}

Result<std::string> MetaRepository::secret(const std::string& name) {
  CheckedSelect<kSecretColumns> find;
  HOLDFAST_CHECKED(find.prepare(connection_.get(), "secrets", "WHERE name=?"));
  auto row = find.rows();
  HOLDFAST_TRY(const bool found, row.bind(name).step());
  if (!found) return std::string();
  if (!row.is_sound()) {
    return Error{Errc::kCorrupt, "secrets: \"" + name + "\" is not what was written; see db check"};
  }
  return row.text("value");
}

Result<void> MetaRepository::check_flags() {
  HOLDFAST_TRY(const std::string bad,
               // Golden answers are compared, not trusted.
               query_text(connection_.get(),
                          "SELECT name FROM flags WHERE name NOT LIKE 'golden/%' AND NOT " +
                              sound_row("flags")));
  if (!bad.empty()) return damaged_at_start("flags", bad);
  return {};
}

Result<std::string> MetaRepository::flag(const char* name) const {
  return query_text(connection_.get(),
                    "SELECT value FROM flags WHERE name='" + std::string(name) + "'");
}

Result<void> MetaRepository::load_flags(core::Boot& boot) {
  sqlite3* db = connection_.get();
  HOLDFAST_TRY(const std::string paused, flag("queue.paused"));
  boot.queue_paused = paused == "1";
  HOLDFAST_TRY(const std::string clock, flag("clock.offset"));
  const std::size_t space = clock.find(' ');
  if (space != std::string::npos) {
    boot.clock_boot_id = clock.substr(0, space);
    boot.clock_offset_ms = std::strtoll(clock.c_str() + space, nullptr, 10);
  }
  HOLDFAST_TRY(const auto drained, flags_below(db, "drain/"));
  for (const auto& [key, value] : drained) boot.drained_workers.push_back(key);
  HOLDFAST_TRY(boot.nodes, flags_below(db, "node/"));
  HOLDFAST_TRY(const auto drained_nodes, flags_below(db, "node_drain/"));
  for (const auto& [name, value] : drained_nodes) boot.drained_nodes.push_back(name);
  HOLDFAST_TRY(boot.quarantined_workers, flags_below(db, "quarantine/"));
  HOLDFAST_TRY(boot.goldens, flags_below(db, "golden/"));
  HOLDFAST_TRY(boot.identities, flags_below(db, "identity/"));
  HOLDFAST_TRY(boot.load_failures, flags_below(db, "load_failures/"));
  HOLDFAST_TRY(boot.keep_alives, flags_below(db, "keep_alive/"));
  HOLDFAST_TRY(const auto pinned, flags_below(db, "pin/"));
  for (const auto& [name, value] : pinned) boot.pinned_models.push_back(name);
  return {};
}

Result<std::vector<core::ConfigVersion>> MetaRepository::config_versions() {
  CheckedSelect<kConfigVersionColumns> select;
  HOLDFAST_CHECKED(
      select.prepare(connection_.get(), "config_versions", "ORDER BY version DESC LIMIT ?"));
  std::vector<core::ConfigVersion> versions;
  auto rows = select.rows();
  rows.bind(static_cast<std::int64_t>(core::kConfigVersionsMax));
  for (;;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) break;
    if (!rows.is_sound()) return damaged_at_start("config_versions", rows.text("version"));
    HOLDFAST_TRY(core::ConfigVersion version, decode_config(rows.bytes("content")));
    version.version = rows.integer("version");
    version.at_ms = rows.integer("at_ms");
    version.source = rows.text("source");
    versions.push_back(std::move(version));
  }
  std::reverse(versions.begin(), versions.end());
  return versions;
}

}  // namespace holdfast::store
