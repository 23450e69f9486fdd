#pragma once
// Counts of a machine by name, so that a test can compare them with those of a moment before.

#include <cstdint>
#include <map>
#include <string>

#include "control/core/machine.h"

namespace holdfast::core {

/// Counters and statistics that are not zero; those of a model as "m.queue_wait.us" and so on.
std::map<std::string, std::int64_t> counts_of(const Machine& machine, Now now);

/// The differences " name=+1 other=-2" from `before` to `now`; empty if there is none.
std::string count_changes(const std::map<std::string, std::int64_t>& before,
                          const std::map<std::string, std::int64_t>& now);

}  // namespace holdfast::core
