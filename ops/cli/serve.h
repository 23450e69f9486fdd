#pragma once
// `holdfast serve`: all processes of one machine under one parent.

#include "ops/cli/call.h"

namespace holdfast::cli {

int serve(const Call& call);

}  // namespace holdfast::cli
