#pragma once
// Reads all of a database that nobody writes to, and reports what is not as it was written.

#include <cstdint>
#include <string>

#include "control/store/open.h"
#include "shared/base/result.h"

namespace holdfast::store {

/// The counts and findings of a check of a database.
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

/// Checks identity and version; the checksum of every row, prompt, token chunk and object; that all
/// tokens of each choice and all parts of each object are there; references; SQLite's own check.
/// kCorrupt names the table and the row's key.
Result<CheckReport> check_file(const std::string& path);

/// Gives rows that are older than checksums one, from what they hold now. Returns their number. The
/// lock must be held, and the database must have this program's version (else kConflict).
Result<std::int64_t> sum_old_rows(const std::string& path);

/// Opens a file that nobody writes to, in WAL mode or not; a log that is left next to it is read
/// too. The connection has the functions of row_checksum.h.
Result<Db> open_still(const std::string& path, int flags);

}  // namespace holdfast::store
