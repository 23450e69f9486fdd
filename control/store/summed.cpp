#include "control/store/summed.h"

#include <algorithm>

#include "control/store/row_checksum.h"

namespace holdfast::store {
namespace {

bool has(ColumnNames names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::uint64_t ones(bool yes) {
  return yes ? ~std::uint64_t{0} : 0;
}

std::vector<SummedColumn> columns_of(const CheckedTable& table, ColumnNames names,
                                     ColumnNames changing) {
  std::vector<SummedColumn> columns;
  for (const char* name : names) {
    const bool counts = has(table.columns, name);
    columns.push_back({ColumnSeeds(static_cast<std::uint64_t>(name_hash(name))), ones(counts),
                       ones(counts && !has(changing, name))});
  }
  return columns;
}

}  // namespace

Result<SummedInsertParts> prepare_summed_insert(sqlite3* db, const char* table_name,
                                                ColumnNames columns, ColumnNames changing,
                                                const char* tail) {
  const CheckedTable& table = checked_table(table_name);
  SummedInsertParts made;
  made.columns = columns_of(table, columns, changing);
  for (const char* column : table.columns) {
    if (has(columns, column)) continue;
    CHECK_MSG(has(changing, column), "what an INSERT leaves out is changed later, or never known");
    made.left_out ^= default_part(table, column);
  }
  std::vector<const char*> all(columns.begin(), columns.end());
  all.push_back("checksum");
  HOLDFAST_TRY(made.statement,
               Statement::prepare(db, (plain_insert(table.name, all) + tail).c_str()));
  return made;
}

Result<SummedUpdateParts> prepare_summed_update(sqlite3* db, const char* table, ColumnNames columns,
                                                ColumnNames key) {
  SummedUpdateParts made;
  made.columns = columns_of(checked_table(table), columns, {});
  std::string set;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    set += std::string(columns[i]) + "=?" + std::to_string(i + 1) + ",";
  }
  const std::size_t last = columns.size() + key.size() + 1;
  const std::string sql = std::string("UPDATE ") + table + " SET " + set + "checksum=?" +
                          std::to_string(last) + where_key(key, columns.size());
  HOLDFAST_TRY(made.bound, Statement::prepare(db, sql.c_str()));
  HOLDFAST_TRY(made.moved, Statement::prepare(db, checked_update(table, columns, key).c_str()));
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
