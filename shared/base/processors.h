#pragma once
// The number of compute threads that are useful here.

#include <string>

namespace holdfast {

/// Returns the processors that this process may use, at least 1: those of its affinity mask, and no
/// more than its control group's quota, rounded down. A part of a processor does not count: threads
/// that wait for each other are delayed by the one that has to stop. `root` is prepended to /proc
/// and /sys.
int usable_processors(const std::string& root = "");

}  // namespace holdfast
