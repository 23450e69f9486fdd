#pragma once
// Signs of life of the compute thread. Executors count each finished operation of a step. A
// watchdog that sees no count for long takes the thread for stuck and ends the process. Long steps
// are fine as long as their operations end.

#include <cstdint>

namespace holdfast {

/// Exit status of a process that its own watchdog ended. The running requests are blamed.
inline constexpr int kExitStuck = 86;
/// Exit status of a worker whose device failed in a step. No request is blamed; they go on
/// elsewhere.
inline constexpr int kExitDeviceFailed = 87;

/// Counts one finished operation. Any thread; cheap.
void note_progress();
std::uint64_t progress_count();

}  // namespace holdfast
