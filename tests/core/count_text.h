#pragma once
// All that a machine has counted, by name, so that a test can compare it with what it was before.

#include <cstdint>
#include <map>
#include <string>

#include "control/core/machine.h"

namespace holdfast::core {

/// Counters and statistics that are not zero; those of a model as "m.queue_wait.us" and so on.
std::map<std::string, std::int64_t> counts_of(const Machine& machine, Now now);

/// " name=+1 other=-2": what is in `now` and was not in `before`; empty if nothing is.
std::string count_changes(const std::map<std::string, std::int64_t>& before,
                          const std::map<std::string, std::int64_t>& now);

}  // namespace holdfast::core
