#pragma once
// Blame: which deaths of workers count against a request, and what follows. Only a crash signal, an
// out-of-memory kill or the step watchdog counts, only for what was in the step that was running,
// and only while the choice's next index has not moved since the last death.

#include <cstdint>

#include "control/core/config.h"
#include "control/core/events.h"
#include "control/core/requests.h"

namespace holdfast::core {

/// Returns true for SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, out of memory and the step watchdog.
/// A SIGKILL from outside, an orderly exit and SIGSYS (a call that is not on the process's list: a
/// matter of the list, or of code that was taken over) never count.
bool death_counts(const WorkerExit& exit);

/// Returns true for the error codes of requests that cannot be done; such an error says nothing
/// about the worker that tried.
bool is_fault_of_request(const std::string& code);

/// Where a choice may run: anywhere, alone on a worker, or nowhere.
enum class Suspicion : std::uint8_t { kNone, kAlone, kQuarantine };

/// Charges one death to a choice whose index stood at `index_then` when its worker died. Does
/// nothing if the choice has moved since.
void charge_death(Choice& choice, std::int64_t index_then);

/// Suspicion that a choice's record justifies now: progress since the last death clears it.
Suspicion suspicion(const Choice& choice, const Config& config);

}  // namespace holdfast::core
