#pragma once
// Verbs of the database that an operator needs only after an accident.

#include "ops/cli/verbs.h"

namespace holdfast::cli {

int db_accept_loss(const Call& call);

}  // namespace holdfast::cli
