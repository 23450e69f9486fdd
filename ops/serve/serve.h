#pragma once
// `holdfast serve`: all processes of one machine under one parent.

#include "ops/terminal/call.h"

namespace holdfast::cli {

/// Runs the verb until a signal ends it. Returns the exit code.
int serve(const Call& call);

}  // namespace holdfast::cli
