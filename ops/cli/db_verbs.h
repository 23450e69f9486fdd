#pragma once
// Verbs of the database that an operator needs only after an accident.

#include "ops/cli/verbs.h"

namespace holdfast::cli {

/// Runs `db accept-loss`: a log whose end was found lost is no problem any more, and the daemon
/// starts with it. Returns the exit code.
int db_accept_loss(const Call& call);

}  // namespace holdfast::cli
