#pragma once
// How many compute threads make sense here.

#include <string>

namespace holdfast {

/// Processors that this process may use, at least 1: those of its affinity mask, and no more than
/// the time that its control group gets. A part of a processor does not count: threads that wait
/// for each other are held up by the one that has to stop. `root` stands before /proc and /sys.
int usable_processors(const std::string& root = "");

}  // namespace holdfast
