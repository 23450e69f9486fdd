#pragma once
// The state directory of a program that works for a daemon elsewhere: a node or a gateway.

#include <string>

#include "shared/base/result.h"

namespace holdfast::cli {

/// Takes the directory for this process: two would share names and files. Returns the descriptor,
/// which has the lock until the process ends. kConflict, kIo.
Result<int> lock_remote_state(const std::string& state);

}  // namespace holdfast::cli
