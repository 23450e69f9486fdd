#pragma once
// The end of a child, in words.

#include <string>

#include "ops/serve/supervisor.h"

namespace holdfast::cli {

/// Says who ended how: "worker-0 (pid 7) was killed by signal 9".
std::string how_it_ended(const ChildExit& exit);
/// Writes to stderr how it ended, and that it is started again.
void say_started_again(const ChildExit& exit);

}  // namespace holdfast::cli
