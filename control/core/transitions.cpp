#include "control/core/transitions.h"

#include <algorithm>
#include <array>

namespace holdfast::core {
namespace {

using S = RequestState;
using C = RequestChange;
constexpr std::array kRequestArrows = {
    RequestArrow{S::kQueued, C::kDispatched, S::kRunning},
    RequestArrow{S::kQueued, C::kSucceeded, S::kSucceeded},  // max_tokens 0: nothing to run
    RequestArrow{S::kQueued, C::kFailed, S::kFailed},
    RequestArrow{S::kQueued, C::kCancelled, S::kCancelled},
    RequestArrow{S::kQueued, C::kExpired, S::kExpired},
    RequestArrow{S::kQueued, C::kQuarantined, S::kQuarantined},
    RequestArrow{S::kRunning, C::kDispatched, S::kRunning},  // another choice
    RequestArrow{S::kRunning, C::kRequeued, S::kQueued},
    RequestArrow{S::kRunning, C::kSucceeded, S::kSucceeded},
    RequestArrow{S::kRunning, C::kFailed, S::kFailed},
    RequestArrow{S::kRunning, C::kCancelled, S::kCancelled},
    RequestArrow{S::kRunning, C::kExpired, S::kExpired},
    RequestArrow{S::kRunning, C::kQuarantined, S::kQuarantined},
    RequestArrow{S::kQuarantined, C::kReleased, S::kQueued},
    RequestArrow{S::kQuarantined, C::kFailed, S::kFailed},  // its rows cannot be read
    RequestArrow{S::kQuarantined, C::kCancelled, S::kCancelled},
    RequestArrow{S::kQuarantined, C::kExpired, S::kExpired},
};

using M = ModelState;
constexpr std::array kModelArrows = {
    ModelArrow{M::kRegistered, M::kPlacing},  // wanted by a request or an operator
    ModelArrow{M::kRegistered, M::kUnloaded},
    ModelArrow{M::kRegistered, M::kFailed},  // it can never fit
    ModelArrow{M::kPlacing, M::kLoading},
    ModelArrow{M::kPlacing, M::kWarming},
    ModelArrow{M::kPlacing, M::kReady},  // a worker came back with it
    ModelArrow{M::kPlacing, M::kDraining},
    ModelArrow{M::kPlacing, M::kUnloaded},
    ModelArrow{M::kPlacing, M::kFailed},
    ModelArrow{M::kLoading, M::kPlacing},  // its worker was lost
    ModelArrow{M::kLoading, M::kWarming},
    ModelArrow{M::kLoading, M::kReady},
    ModelArrow{M::kLoading, M::kDraining},
    ModelArrow{M::kLoading, M::kUnloaded},
    ModelArrow{M::kLoading, M::kFailed},
    ModelArrow{M::kWarming, M::kPlacing},
    ModelArrow{M::kWarming, M::kReady},
    ModelArrow{M::kWarming, M::kDraining},
    ModelArrow{M::kWarming, M::kUnloaded},
    ModelArrow{M::kWarming, M::kFailed},
    ModelArrow{M::kReady, M::kPlacing},
    ModelArrow{M::kReady, M::kDraining},
    ModelArrow{M::kReady, M::kUnloaded},
    ModelArrow{M::kReady, M::kFailed},
    ModelArrow{M::kDraining, M::kPlacing},  // wanted again
    ModelArrow{M::kDraining, M::kReady},
    ModelArrow{M::kDraining, M::kUnloaded},
    ModelArrow{M::kDraining, M::kFailed},
    ModelArrow{M::kUnloaded, M::kRegistered},  // the file was replaced
    ModelArrow{M::kUnloaded, M::kPlacing},
    ModelArrow{M::kUnloaded, M::kReady},
    ModelArrow{M::kFailed, M::kRegistered},
    ModelArrow{M::kFailed, M::kPlacing},
    ModelArrow{M::kFailed, M::kReady},
    ModelArrow{M::kFailed, M::kUnloaded},
};

constexpr std::array<std::string_view, 8> kChangeNames = {"dispatched",  "requeued",  "succeeded",
                                                          "failed",      "cancelled", "expired",
                                                          "quarantined", "released"};

}  // namespace

std::string_view change_name(RequestChange change) {
  return kChangeNames.at(static_cast<std::size_t>(change));
}

std::span<const RequestArrow> request_arrows() {
  return kRequestArrows;
}

std::optional<std::size_t> find_arrow(RequestState state, RequestChange change) {
  const auto found = std::find_if(
      kRequestArrows.begin(), kRequestArrows.end(),
      [&](const RequestArrow& arrow) { return arrow.from == state && arrow.change == change; });
  if (found == kRequestArrows.end()) return std::nullopt;
  return static_cast<std::size_t>(found - kRequestArrows.begin());
}

std::optional<RequestState> next_state(RequestState state, RequestChange change) {
  const auto arrow = find_arrow(state, change);
  if (!arrow) return std::nullopt;
  return kRequestArrows[*arrow].to;
}

std::span<const ModelArrow> model_arrows() {
  return kModelArrows;
}

bool legal_change(ModelState from, ModelState to) {
  return std::any_of(kModelArrows.begin(), kModelArrows.end(),
                     [&](const ModelArrow& a) { return a.from == from && a.to == to; });
}

}  // namespace holdfast::core
