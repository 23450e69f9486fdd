#include "control/store/summed.h"

#include <algorithm>

#include "control/store/row_checksum.h"

namespace holdfast::store {
namespace {

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_summed(const CheckedTable& table, std::string_view name) {
  return std::find(table.columns.begin(), table.columns.end(), name) != table.columns.end();
}

std::uint64_t ones(bool yes) {
  return yes ? ~std::uint64_t{0} : 0;
}

std::vector<SummedColumn> columns_of(const CheckedTable& table,
                                     const std::vector<std::string>& names,
                                     const std::vector<std::string>& changing) {
  std::vector<SummedColumn> columns;
  for (const std::string& name : names) {
    const bool counts = is_summed(table, name);
    columns.push_back({ColumnSeeds(static_cast<std::uint64_t>(name_hash(name))), ones(counts),
                       ones(counts && !has(changing, name))});
  }
  return columns;
}

}  // namespace

Result<SummedStatement> SummedStatement::insert(sqlite3* db, const char* table_name,
                                                std::string_view columns, std::string_view changing,
                                                const char* tail) {
  const CheckedTable& table = checked_table(table_name);
  const std::vector<std::string> names = column_names(columns);
  const std::vector<std::string> change = column_names(changing);
  SummedStatement made;
  made.columns_ = columns_of(table, names, change);
  for (const char* column : table.columns) {
    if (has(names, column)) continue;
    CHECK_MSG(has(change, column), "what an INSERT leaves out is changed later, or never known");
    made.left_out_ ^= default_part(table, column);
  }
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) list += "?,";
  const std::string sql = std::string("INSERT INTO ") + table.name + "(" + std::string(columns) +
                          ", checksum) VALUES (" + list + "?)" + tail;
  HOLDFAST_TRY(made.statement_, Statement::prepare(db, sql.c_str()));
  return made;
}

Result<SummedUpdate> SummedUpdate::prepare(sqlite3* db, const char* table, std::string_view columns,
                                           const char* where) {
  const std::vector<std::string> names = column_names(columns);
  SummedUpdate made;
  made.columns_ = columns_of(checked_table(table), names, {});
  std::string set;
  for (const std::string& name : names) set += name + "=?,";
  const std::string sql = std::string("UPDATE ") + table + " SET " + set + "checksum=? " + where;
  HOLDFAST_TRY(made.bound_, Statement::prepare(db, sql.c_str()));
  HOLDFAST_TRY(made.moved_, Statement::prepare(db, checked_update(table, columns, where).c_str()));
  return made;
}

void StayingSums::insert_request(core::Seq seq, std::uint64_t sum) {
  requests_.insert_or_assign(seq, Request{sum, {}});
}

void StayingSums::insert_choice(core::Seq seq, std::int32_t choice, std::uint64_t sum) {
  const auto request = requests_.find(seq);
  if (request == requests_.end()) return;
  std::vector<Choice>& choices = request->second.choices;
  if (choices.size() == static_cast<std::size_t>(choice)) choices.push_back({sum, {}, {}});
}

void StayingSums::begin_attempt(core::Seq seq, std::int32_t choice, wire::Fence fence,
                                std::uint64_t sum) {
  if (find(seq, choice) == nullptr) return;
  Choice& entry = requests_[seq].choices[static_cast<std::size_t>(choice)];
  entry.fence = fence;
  entry.attempt = sum;
}

const StayingSums::Choice* StayingSums::find(core::Seq seq, std::int32_t choice) const {
  const auto request = requests_.find(seq);
  if (request == requests_.end()) return nullptr;
  const auto at = static_cast<std::size_t>(choice);
  return at < request->second.choices.size() ? &request->second.choices[at] : nullptr;
}

std::optional<std::uint64_t> StayingSums::request(core::Seq seq) const {
  const auto request = requests_.find(seq);
  return request == requests_.end() ? std::nullopt : std::optional(request->second.sum);
}

std::optional<std::uint64_t> StayingSums::choice(core::Seq seq, std::int32_t choice) const {
  const Choice* entry = find(seq, choice);
  return entry == nullptr ? std::nullopt : std::optional(entry->sum);
}

std::optional<std::uint64_t> StayingSums::attempt(core::Seq seq, std::int32_t choice,
                                                  wire::Fence fence) const {
  const Choice* entry = find(seq, choice);
  return entry == nullptr || entry->fence != fence ? std::nullopt : entry->attempt;
}

}  // namespace holdfast::store
