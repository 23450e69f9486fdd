#pragma once
// Settings from the sources of a start: a file, the environment, the command line.

#include <string>
#include <vector>

#include "control/core/events.h"

namespace holdfast::daemon {

/// Reads lines `name = value`; `#` starts a comment. kUsage (file, line): unknown name, bad value.
Result<core::ConfigImport> import_file(const std::string& path);

/// Reads variables: HOLDFAST_QUEUE_MAX_REQUESTS=5 is queue.max_requests. A variable whose first
/// word is the group of a knob must name a knob (kUsage); others belong to other parts of the
/// program. `environment` is that of main(), ended by nullptr.
Result<core::ConfigImport> import_environment(const char* const* environment);

/// Reads assignments name=value. kUsage: unknown name, bad value.
Result<core::ConfigImport> import_command_line(const std::vector<std::string>& assignments);

}  // namespace holdfast::daemon
