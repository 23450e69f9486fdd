#pragma once
// Problems of the daemon, each with a hint, for status and doctor.

#include <cstdint>
#include <string>
#include <vector>

#include "control/core/machine.h"
#include "control/operator/operator_verbs.h"
#include "control/store/store.h"

namespace holdfast::daemon {

/// Something that is wrong, or soon will be, with its remedy.
struct Problem {
  bool error = false;   // else a warning: it works, but not for long or not as well as it could
  std::string subject;  // "worker", "model", "disk", … and a name where there are several
  std::string what;     // one line
  std::string hint;     // one line, the remedy
};

/// Returns problems, errors first. Looks at the machine, the disk and the modes of key files; cheap
/// enough for each status.
std::vector<Problem> find_problems(const core::Machine& machine, const store::Store& store,
                                   const ProcessFacts& facts);

}  // namespace holdfast::daemon
