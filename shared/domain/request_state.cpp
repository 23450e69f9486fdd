#include "shared/domain/request_state.h"

namespace holdfast::domain {

std::string_view state_name(RequestState state) {
  switch (state) {
    case RequestState::kQueued:
      return "queued";
    case RequestState::kRunning:
      return "running";
    case RequestState::kSucceeded:
      return "succeeded";
    case RequestState::kFailed:
      return "failed";
    case RequestState::kCancelled:
      return "cancelled";
    case RequestState::kExpired:
      return "expired";
    case RequestState::kQuarantined:
      return "quarantined";
  }
  return "unknown";
}

bool is_terminal(RequestState state) {
  switch (state) {
    case RequestState::kSucceeded:
    case RequestState::kFailed:
    case RequestState::kCancelled:
    case RequestState::kExpired:
      return true;
    case RequestState::kQueued:
    case RequestState::kRunning:
    case RequestState::kQuarantined:
      return false;
  }
  return false;
}

std::string_view finish_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "none";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
    case FinishReason::kExpired:
      return "expired";
  }
  return "unknown";
}

}  // namespace holdfast::domain
