#pragma once
// Operator verbs on a state directory that no daemon serves. The same machine boots from the
// database, steps the one event and commits it, so a change means what it means online.

#include <string>

#include "control/link/operator_verbs.h"
#include "shared/base/clock.h"

namespace holdfast::link {

struct OfflineAnswer {
  bool ok = false;
  wire::Refusal refusal;
  std::string document;  // JSON
};

/// Takes the lock of the directory (role "cli") for the time. Errors as Store::open: kConflict if a
/// daemon owns it after all. Verbs that need workers, helpers or a serving process are refused with
/// kUnreachable.
Result<OfflineAnswer> operate_offline(const std::string& state_dir, const Clock& clock,
                                      const wire::Op& op);

}  // namespace holdfast::link
