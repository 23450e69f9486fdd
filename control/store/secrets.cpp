// Secrets of the database: written once, read often, never shown.
#include "control/store/row_checksum.h"
#include "control/store/sqlite_store.h"

namespace holdfast::store {

Result<void> SqliteStore::make_secret(const std::string& name, std::string_view value) {
  HOLDFAST_TRY(const std::string existing, secret(name));
  if (!existing.empty()) return {};
  HOLDFAST_CHECKED(end_reads());
  HOLDFAST_CHECKED(set_synchronous(core::Durability::kFull));
  static const std::string kInsert = checked_insert("secrets", "name, value", "INSERT OR IGNORE");
  HOLDFAST_TRY(Statement insert, Statement::prepare(db_.get(), kInsert.c_str()));
  Result<void> done = insert.use().bind(name).bind_blob(value).run();
  if (!done) stop_writing();
  return done;
}

Result<std::string> SqliteStore::secret(const std::string& name) {
  static const std::string kFind =
      "SELECT value, " + sound_row("secrets") + " FROM secrets WHERE name=?";
  HOLDFAST_TRY(Statement find, Statement::prepare(db_.get(), kFind.c_str()));
  auto use = find.use();
  use.bind(name);
  HOLDFAST_TRY(const bool found, use.step());
  if (!found) return std::string();
  if (use.integer(1) == 0) {
    return Error{Errc::kCorrupt, "secrets: \"" + name + "\" is not what was written; see db check"};
  }
  return use.text(0);
}

}  // namespace holdfast::store
