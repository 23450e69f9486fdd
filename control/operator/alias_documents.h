#pragma once
// Documents about aliases and canaries.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "control/core/machine.h"
#include "control/store/store.h"

namespace holdfast::daemon {

/// Targets with their shares, pending targets, the canary with its window so far, counters by side.
nlohmann::json alias_json(const core::Machine& machine, const core::Alias& alias);
/// All aliases, by name.
nlohmann::json aliases_json(const core::Machine& machine);

/// {"history": changes, "canaries": each with its settings and end, "windows": each decision with
/// the numbers of both sides}, the newest first, at most `limit` of each. A removed alias still has
/// its history. kNotFound: no alias ever had this name.
Result<nlohmann::json> alias_history_json(const std::string& name, std::int64_t limit,
                                          store::Store& store);

}  // namespace holdfast::daemon
