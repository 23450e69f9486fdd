#pragma once
// Signs of life of the compute thread. Executors count an operation of a step when it is done; a
// watchdog that sees no count for long takes the thread for stuck and ends the process. Long steps
// are fine as long as their operations end.

#include <cstdint>

namespace holdfast {

/// Exit status of a process that its own watchdog ended. Counts as a death by what was running.
inline constexpr int kExitStuck = 86;
/// Exit status of a worker whose device failed in a step. Counts against nobody: its requests go on
/// elsewhere.
inline constexpr int kExitDeviceFailed = 87;

/// Any thread; cheap.
void note_progress();
std::uint64_t progress_count();

}  // namespace holdfast
