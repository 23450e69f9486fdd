#pragma once
// Operator verbs on a state directory that no daemon serves. The same machine boots from the
// database, steps the one event and commits it, so a change has the same meaning as online.

#include <string>

#include "control/operator/operator_verbs.h"
#include "shared/base/clock.h"

namespace holdfast::daemon {

/// The daemon's answer to a verb, made without a daemon: a document, or a refusal.
struct OfflineAnswer {
  bool ok = false;
  wire::Refusal refusal;
  std::string document;  // JSON
};

/// Runs one verb and holds the lock of the directory (role "cli") meanwhile. Errors as Store::open:
/// kConflict if a daemon owns it after all. Verbs that need workers, helpers or a serving process
/// are refused with kUnreachable.
Result<OfflineAnswer> operate_offline(const std::string& state_dir, const Clock& clock,
                                      const wire::Op& op);

}  // namespace holdfast::daemon
