#pragma once
// Speeds of a directory's disk without our programs: synced writes, and SQLite alone with our rows.

#include <string>

#include "bench/lib/stats.h"
#include "shared/base/result.h"

namespace holdfast::bench {

/// Milliseconds of write(4 KiB) + fdatasync on one file that grows, as a log does. kIo.
Result<Summary> measure_sync(const std::string& dir, int writes);

/// Speeds of SQLite alone.
struct BareSqlite {
  double rows_per_s = 0;  // admissions, each with a request, its payload and its choice
  Summary commit_ms;
};
/// Measures SQLite alone, with our schema and pragmas: groups of `group` admissions, each group one
/// FULL transaction; a passive checkpoint each 4,000 pages, as the daemon does. `dir` is empty or
/// absent.
Result<BareSqlite> measure_bare_sqlite(const std::string& dir, int group, double seconds);

}  // namespace holdfast::bench
