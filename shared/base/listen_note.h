#pragma once
// The address at which the daemon listens for other machines, in a file of the state directory: for
// the supervisor that asked for a free port, and for operators.

#include <string>

#include "shared/base/result.h"

namespace holdfast {

/// Writes RUN_DIR/listen with the address; an empty one removes the file. kIo.
Result<void> write_listen_note(const std::string& run_dir, const std::string& endpoint);
/// Returns the address ("tcp://10.0.0.1:7070"); empty where the daemon listens for nobody.
std::string read_listen_note(const std::string& run_dir);

}  // namespace holdfast
