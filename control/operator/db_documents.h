#pragma once
// Documents of the db verbs.

#include <string>

#include "control/store/backup.h"
#include "control/store/store.h"
#include "shared/wire/messages.h"

namespace holdfast::daemon {

/// The "path" of a db verb's arguments; empty if there is none. kUsage: not a JSON object, or a
/// path that is not absolute.
Result<std::string> path_argument(const wire::Op& op);

/// Return the JSON answer of db backup, db check, db restore and db stats; the names are a contract
/// with scripts.
std::string backup_document(const store::BackupReport& report);
std::string check_document(const std::string& path, const store::CheckReport& report);
std::string restore_document(const store::RestoreReport& report);
std::string stats_document(const store::Store::Stats& stats);

}  // namespace holdfast::daemon
