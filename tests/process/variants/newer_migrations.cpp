// The schema of a version to come, for tests: that of today and one step more.
#include <algorithm>
#include <array>
#include <iterator>

#include "control/store/migrations.h"
#include "schema_sql.h"

namespace holdfast::store {
namespace {

/// Changes a table that every start reads and one that grows, and makes a new one.
constexpr const char* kStep =
    "ALTER TABLE models ADD COLUMN licence TEXT NOT NULL DEFAULT '';\n"
    "CREATE TABLE notes (seq INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;\n"
    "INSERT INTO notes SELECT seq, id FROM requests;\n"
    "CREATE INDEX requests_by_creation ON requests(created_ms);\n";

}  // namespace

const char* const* migrations() {
  static const auto all = [] {
    std::array<const char*, std::size(kMigrations) + 1> steps{};
    std::ranges::copy(kMigrations, steps.begin());
    steps[std::size(kMigrations) - 1] = kStep;
    return steps;
  }();
  return all.data();
}

}  // namespace holdfast::store
