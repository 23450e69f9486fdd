#pragma once
// The state directory: made private, refused with a clear reason.

#include <string>

#include "shared/base/result.h"

namespace holdfast::link {

/// Makes DIR and DIR/run (0700 each) if they are not there. kIo names the path, the cause and what
/// to do; a directory that others may write to is refused (kIo): its sockets are the front door.
Result<void> prepare_state_dir(const std::string& dir);

}  // namespace holdfast::link
