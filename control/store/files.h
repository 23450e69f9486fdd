#pragma once
// Files and directories that must be on the disk before anything goes on.

#include <string>

#include "shared/base/result.h"

namespace holdfast::store {

/// fsync of a file. kIo with path and cause.
Result<void> sync_file(const std::string& path);
/// fsync of a directory. SQLite does not report a failed sync of the directory that has new names.
Result<void> sync_directory(const std::string& dir);
Result<void> sync_directory_of(const std::string& path);
/// 0600; prompts are nobody else's business.
void chmod_private(const std::string& path);

}  // namespace holdfast::store
