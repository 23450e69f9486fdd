#pragma once
// States of a request and of each of its choices, and how soon it is served.

#include <cstdint>
#include <string_view>

namespace holdfast::domain {

/// The class of a request in the queue; a class is served before those after it.
enum class PriorityClass : std::uint8_t { kInteractive = 0, kNormal = 1, kBatch = 2 };
/// The fate of a request whose last client is gone: it goes on, or it ends after a grace.
enum class OnDisconnect : std::uint8_t { kContinue = 0, kCancel = 1 };
/// The state of a request. kSucceeded to kExpired are final; a quarantined one waits for an
/// operator.
enum class RequestState : std::uint8_t {
  kQueued,
  kRunning,
  kSucceeded,
  kFailed,
  kCancelled,
  kExpired,
  kQuarantined
};
std::string_view state_name(RequestState state);  // "queued", …
/// True for a state that a request never leaves.
bool is_terminal(RequestState state);
/// The reason for which a choice ended; kNone while it runs.
enum class FinishReason : std::uint8_t { kNone, kStop, kLength, kCancelled, kError, kExpired };
std::string_view finish_name(FinishReason reason);  // "stop", "length", …

}  // namespace holdfast::domain
