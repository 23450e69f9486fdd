#pragma once
// Aliases and canaries: the tables aliases, alias_history, canaries and canary_windows. Their rows
// are few and seldom written, so each statement is prepared when it is needed.

#include <string>
#include <vector>

#include "control/core/alias_rows.h"
#include "control/store/connection.h"

namespace holdfast::store {

/// Reads and writes aliases, their history and canaries, in the transaction of the connection.
/// Thread: the store's.
class AliasRepository {
 public:
  explicit AliasRepository(Connection& connection) : connection_(connection) {}

  // ---- inside the transaction of a group
  Result<void> write(const core::PutAlias& c);
  Result<void> write(const core::DeleteAlias& c);
  Result<void> write(const core::InsertAliasHistory& c);
  Result<void> write(const core::PutCanary& c);
  Result<void> write(const core::InsertCanaryWindow& c);

  // ---- reads
  Result<std::vector<core::AliasRow>> load_aliases();
  /// Reads the newest canaries of all aliases, oldest first.
  Result<std::vector<core::CanaryRow>> load_canaries();
  /// Returns the changes, canaries and their windows of one alias, the newest first.
  Result<std::vector<core::AliasHistoryRow>> history(const std::string& alias, std::int64_t limit);
  Result<std::vector<core::CanaryRow>> canaries(const std::string& alias, std::int64_t limit);
  Result<std::vector<core::CanaryWindowRow>> canary_windows(const std::string& alias,
                                                            std::int64_t limit);

 private:
  Connection& connection_;
};

}  // namespace holdfast::store
