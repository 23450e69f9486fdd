#pragma once
// The state directory: made private, or refused with a clear reason.

#include <string>

#include "shared/base/result.h"

namespace holdfast::daemon {

/// Makes DIR and DIR/run (0700 each) if they are not there. kIo names the path, the cause and the
/// remedy; a directory that others may write to is refused (kIo), as it holds the sockets.
Result<void> prepare_state_dir(const std::string& dir);

}  // namespace holdfast::daemon
