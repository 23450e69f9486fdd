#pragma once
// What the sources of settings say at a start: a file, the environment, the command line.

#include <string>
#include <vector>

#include "control/core/events.h"

namespace holdfast::link {

/// Lines `name = value`; `#` starts a comment. kUsage with file and line: unknown name, bad value.
Result<core::ConfigImport> import_file(const std::string& path);

/// HOLDFAST_QUEUE_MAX_REQUESTS=5 is queue.max_requests. A variable whose first word is the group of
/// a knob must name one (kUsage); others belong to other parts of the program. `environment`: as in
/// main(), ends with nullptr.
Result<core::ConfigImport> import_environment(const char* const* environment);

/// name=value each.
Result<core::ConfigImport> import_command_line(const std::vector<std::string>& assignments);

}  // namespace holdfast::link
