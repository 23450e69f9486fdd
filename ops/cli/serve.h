#pragma once
// `holdfast serve`: everything on one machine under one parent.

#include "ops/cli/call.h"

namespace holdfast::cli {

int serve(const Call& call);

}  // namespace holdfast::cli
