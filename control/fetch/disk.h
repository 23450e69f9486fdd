#pragma once
// Common parts of writing large files: errors that say how much space is missing, and names that
// are safe against a power failure.

#include <cstdint>
#include <string>

#include "shared/base/result.h"

namespace holdfast::fetch {

/// Returns kDiskFull for `path`, of which `needed` bytes are missing, with what is free there.
Error disk_full(const std::string& path, std::int64_t needed);

/// Returns the error of a call that failed with errno: kDiskFull as above, or kIo. `needed`: bytes
/// that are missing of the file; -1: nobody knows.
Error file_error(const char* operation, const std::string& path, std::int64_t needed);

/// Makes the name of a file safe against a power failure.
void sync_folder(const std::string& path);

}  // namespace holdfast::fetch
