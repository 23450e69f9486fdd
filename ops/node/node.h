#pragma once
// The verb `node`: the workers of this machine for a daemon on another one.

#include "ops/terminal/call.h"

namespace holdfast::cli {

/// Joins a daemon (serve --listen) and runs workers for it until SIGTERM, which drains them. Prints
/// "joined NAME" once the daemon has answered. kExitRefused if it does not want this node.
int node(const Call& call);

}  // namespace holdfast::cli
