#pragma once
// Checksums of rows: the column `checksum` of a table covers the row's columns. SQLite sums its
// log, but not its file; a byte that changes there would be served as if it were true.
//
// A row's checksum is the exclusive or of one hash for each column, seeded by the column's name. So
// an UPDATE takes the old values' part out and puts the new values' part in, and a column that was
// damaged before stays visible: nothing is summed anew from what the file holds.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "control/store/columns.h"
#include "control/store/row_hash.h"
#include "control/store/sqlite.h"

namespace holdfast::store {

/// A table with checksums. Content that has a sum of its own (`crc`) is covered by that sum.
struct CheckedTable {
  const char* name;
  const char* key;           // SQL: names the row in a message
  const char* unsummed_key;  // column that tells rows older than checksums; nullptr: none are
  std::vector<const char*> columns;
};

/// Returns the tables whose rows have a checksum; checked_table() the one of that name, which must
/// exist.
std::span<const CheckedTable> checked_tables();
const CheckedTable& checked_table(const char* name);
/// The part of a column that an INSERT leaves out, from its default in the schema.
std::uint64_t default_part(const CheckedTable& table, std::string_view column);

/// Defines SQL functions on this connection, which migrations and statements use:
/// row_checksum(name, value, …) and checksum_moved(checksum, name, old, new, …), where a name may
/// be given as its hash; and TABLE_checksum(value, …) for each table, of its columns.
Result<void> define_checksums(sqlite3* db);

/// SQL: "verb INTO table(columns, checksum) VALUES (?1, …, row_checksum(…))" and `tail`; the
/// parameters are in the order of the columns. For rows that are seldom written; others: summed.h.
std::string checked_insert(const char* table, ColumnNames columns, const char* verb = "INSERT",
                           const char* tail = "");
/// SQL: the same without a checksum.
std::string plain_insert(const char* table, ColumnNames columns);
/// SQL: "UPDATE table SET column=?1, …, checksum=…" of the row with this key, whose parameters
/// follow. Without a key: of every row.
std::string checked_update(const char* table, ColumnNames columns, ColumnNames key);
/// SQL: " WHERE key=?N AND …" with the parameters that follow those of `columns` columns.
std::string where_key(ColumnNames key, std::size_t columns);
/// SQL: UPDATE that gives a checksum to rows without one.
std::string sum_unsummed(const CheckedTable& table);
/// SQL that is 0 for a row of the table that is not as it was written; `alias` names the table in
/// the statement. A row without a checksum passes: an older program or a script wrote it, or a byte
/// of the checksum itself changed, and none of what it covers.
std::string sound_row(const char* table, const char* alias = nullptr);
/// The same for a check: only rows older than checksums may lack one.
std::string checked_row(const CheckedTable& table);

}  // namespace holdfast::store
