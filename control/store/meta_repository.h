#pragma once
// Rows of the database as a whole: the tables epochs, secrets, flags and config_versions.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "control/core/events.h"
#include "control/core/rows.h"
#include "control/store/connection.h"
#include "control/store/select.h"
#include "control/store/write_statements.h"

namespace holdfast::store {

inline constexpr Columns kEpochColumns{"epoch", "started_ms", "pid", "program"};
inline constexpr Columns kFlagColumns{"name", "value"};
inline constexpr Columns kSecretColumns{"name", "value"};
inline constexpr Columns kConfigVersionColumns{"version", "at_ms", "source", "content"};

/// Reads and writes flags, counters, secrets and versions of the configuration.
class MetaRepository {
 public:
  explicit MetaRepository(Connection& connection) : connection_(connection) {}
  Result<void> prepare();

  // ---- inside a transaction
  Result<void> insert_epoch(std::int64_t epoch, std::int64_t wall_ms, const std::string& program);
  Result<void> write(const core::PutFlag& c);
  Result<void> write(const core::InsertConfigVersion& c);

  // ---- epochs
  /// Returns the highest epoch; 0 if there is none.
  Result<std::int64_t> last_epoch();

  // ---- secrets: written once, read often, never shown
  /// Inserts a secret if there is none of this name, in a transaction of its own.
  Result<void> insert_secret(const std::string& name, std::string_view value);
  /// Returns a secret; empty if there is none of this name.
  Result<std::string> secret(const std::string& name);

  // ---- flags
  /// Returns kCorrupt if a flag that a start trusts is damaged.
  Result<void> check_flags();
  /// Returns the value of a flag; empty if there is none of this name.
  Result<std::string> flag(const char* name) const;
  /// Reads all flags that a start needs.
  Result<void> load_flags(core::Boot& boot);

  /// Returns the newest versions of the configuration, oldest first.
  Result<std::vector<core::ConfigVersion>> config_versions();

 private:
  Connection& connection_;
  Insert<kEpochColumns> insert_epoch_;
  Insert<kFlagColumns> put_flag_;
  Insert<kConfigVersionColumns> insert_config_;
};

}  // namespace holdfast::store
