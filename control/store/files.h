#pragma once
// Syncs files and directories that must be on the disk before anything goes on.

#include <string>

#include "shared/base/result.h"

namespace holdfast::store {

/// Syncs a file. kIo with path and cause.
Result<void> sync_file(const std::string& path);
/// Syncs a directory, as SQLite does not report a failed sync of the directory with new names.
Result<void> sync_directory(const std::string& dir);
Result<void> sync_directory_of(const std::string& path);
/// Sets mode 0600, as prompts are for the owner alone.
void chmod_private(const std::string& path);

}  // namespace holdfast::store
