#pragma once
// The verb `gateway`: HTTP on this machine for a daemon on another one.

#include "ops/terminal/call.h"

namespace holdfast::cli {

/// Joins a daemon (serve --listen) and runs an HTTP gateway for it until SIGTERM, which lets
/// running answers end. Prints "ready URL" once the daemon has answered. kExitRefused as soon as
/// the daemon does not take the key (any more).
int gateway(const Call& call);

}  // namespace holdfast::cli
