#include "control/store/select.h"

#include "shared/base/check.h"

namespace holdfast::store {

Result<Statement> prepare_select(sqlite3* db, const std::string& sql, ColumnNames names,
                                 bool checked) {
  HOLDFAST_TRY(Statement select, Statement::prepare(db, sql.c_str()));
  // SQLite finds a column by its name without regard to case, and tells it as the table has it.
  const auto is_named = [&](std::size_t column, const char* name) {
    const char* found = sqlite3_column_name(select.get(), static_cast<int>(column));
    return found != nullptr && sqlite3_stricmp(found, name) == 0;
  };
  const auto count = static_cast<std::size_t>(sqlite3_column_count(select.get()));
  CHECK_MSG(count == names.size() + (checked ? 1 : 0), sql.c_str());
  for (std::size_t i = 0; i < names.size(); ++i) CHECK_MSG(is_named(i, names[i]), sql.c_str());
  CHECK_MSG(!checked || is_named(names.size(), "sound"), sql.c_str());
  return select;
}

}  // namespace holdfast::store
