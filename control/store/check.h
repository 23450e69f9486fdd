#pragma once
// Reading all of a database that nobody writes to, and saying what in it is not as it was written.

#include <cstdint>
#include <string>

#include "control/store/open.h"
#include "shared/base/result.h"

namespace holdfast::store {

struct CheckReport {
  std::int64_t schema = 0;
  std::int64_t requests = 0;
  std::int64_t chunks = 0;
  std::int64_t payloads = 0;
  std::int64_t objects = 0;
  std::int64_t object_parts = 0;
  std::int64_t rows = 0;      // with a checksum of their own
  std::int64_t unsummed = 0;  // older than checksums, with none
};

/// Identity and version; the checksum of every row, prompt, token chunk and object; that the tokens
/// of each choice and the parts of each object are all there; references; SQLite's own check.
/// kCorrupt says what is wrong: the table and the row's key.
Result<CheckReport> check_file(const std::string& path);

/// Gives rows that are older than checksums theirs, from what they say now. How many there were.
/// The lock must be held, and the database be of this program's version.
Result<std::int64_t> sum_old_rows(const std::string& path);

/// A file that nobody writes to. WAL or not: an old log beside it is taken into account. It knows
/// the functions of row_checksum.h.
Result<Db> open_still(const std::string& path, int flags);

}  // namespace holdfast::store
