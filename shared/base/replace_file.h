#pragma once
// A small file that is replaced whole: readers see the old content or the new one.

#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast {

/// Writes `text` to `path` (0600) through "PATH.new" and a rename. kIo with path and cause; the old
/// file stays then.
Result<void> replace_file(const std::string& path, std::string_view text);

}  // namespace holdfast
