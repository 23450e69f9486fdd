#pragma once
// `holdfast run MODEL|FILE PROMPT`: one request, its text on stdout as it comes.

#include "ops/cli/call.h"

namespace holdfast::cli {

int run_prompt(const Call& call);

}  // namespace holdfast::cli
