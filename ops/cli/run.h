#pragma once
// `holdfast run MODEL|FILE PROMPT`: one request, its text on stdout as it comes.

#include "ops/terminal/call.h"

namespace holdfast::cli {

/// Runs the verb. A file is registered with the daemon, or without one served by a `serve` of its
/// own for the time of the request. A signal cancels the request. Returns the exit code.
int run_prompt(const Call& call);

}  // namespace holdfast::cli
