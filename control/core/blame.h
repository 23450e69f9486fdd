#pragma once
// Which deaths of workers count against a request, and what follows. Only a crash signal, an
// out-of-memory kill or the step watchdog counts, only for what was in the step that was running,
// and only while the choice's next index has not moved since the last one.

#include <cstdint>

#include "control/core/config.h"
#include "control/core/events.h"
#include "control/core/requests.h"

namespace holdfast::core {

/// SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, out of memory or the step watchdog. A SIGKILL from
/// outside, an orderly exit and SIGSYS (a call that is not on the process's list: a matter of the
/// list, or of code that was taken over) never count.
bool death_counts(const WorkerExit& exit);

/// What a request asked for cannot be done: that says nothing about who tried it.
bool is_fault_of_request(const std::string& code);

enum class Suspicion : std::uint8_t { kNone, kAlone, kQuarantine };

/// Charges one death to a choice whose index stood at `index_then` when its worker died. Nothing
/// happens if the choice has moved since.
void charge_death(Choice& choice, std::int64_t index_then);

/// What a choice's record means now: progress since the last death clears it.
Suspicion suspicion(const Choice& choice, const Config& config);

}  // namespace holdfast::core
