#pragma once
// The document of `status`: everything that one screen shows, and more for scripts.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "control/core/machine.h"
#include "control/operator/operator_verbs.h"
#include "control/store/store.h"

namespace holdfast::daemon {

/// Returns the document; `facts` has what the machine does not know of its process. Members are a
/// contract with scripts.
nlohmann::json status_document(const core::Machine& machine, const store::Store& store,
                               const ProcessFacts& facts);

}  // namespace holdfast::daemon
