#pragma once
// Verbs of the database that only an operator after an accident needs.

#include "ops/cli/verbs.h"

namespace holdfast::cli {

int db_accept_loss(const Call& call);

}  // namespace holdfast::cli
