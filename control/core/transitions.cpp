#include "control/core/transitions.h"

#include <algorithm>
#include <array>

namespace holdfast::core {
namespace {

using S = RequestState;
using C = RequestChange;
constexpr std::array kRequestTransitions = {
    RequestTransition{S::kQueued, C::kDispatched, S::kRunning},
    RequestTransition{S::kQueued, C::kSucceeded, S::kSucceeded},  // max_tokens 0: nothing to run
    RequestTransition{S::kQueued, C::kFailed, S::kFailed},
    RequestTransition{S::kQueued, C::kCancelled, S::kCancelled},
    RequestTransition{S::kQueued, C::kExpired, S::kExpired},
    RequestTransition{S::kQueued, C::kQuarantined, S::kQuarantined},
    RequestTransition{S::kRunning, C::kDispatched, S::kRunning},  // another choice
    RequestTransition{S::kRunning, C::kRequeued, S::kQueued},
    RequestTransition{S::kRunning, C::kSucceeded, S::kSucceeded},
    RequestTransition{S::kRunning, C::kFailed, S::kFailed},
    RequestTransition{S::kRunning, C::kCancelled, S::kCancelled},
    RequestTransition{S::kRunning, C::kExpired, S::kExpired},
    RequestTransition{S::kRunning, C::kQuarantined, S::kQuarantined},
    RequestTransition{S::kQuarantined, C::kReleased, S::kQueued},
    RequestTransition{S::kQuarantined, C::kFailed, S::kFailed},  // its rows cannot be read
    RequestTransition{S::kQuarantined, C::kCancelled, S::kCancelled},
    RequestTransition{S::kQuarantined, C::kExpired, S::kExpired},
};

using M = ModelState;
constexpr std::array kModelTransitions = {
    ModelTransition{M::kRegistered, M::kPlacing},  // requested by a client or an operator
    ModelTransition{M::kRegistered, M::kUnloaded},
    ModelTransition{M::kRegistered, M::kFailed},  // it can never fit
    ModelTransition{M::kPlacing, M::kLoading},
    ModelTransition{M::kPlacing, M::kWarming},
    ModelTransition{M::kPlacing, M::kReady},  // a worker came back with it
    ModelTransition{M::kPlacing, M::kDraining},
    ModelTransition{M::kPlacing, M::kUnloaded},
    ModelTransition{M::kPlacing, M::kFailed},
    ModelTransition{M::kLoading, M::kPlacing},  // its worker was lost
    ModelTransition{M::kLoading, M::kWarming},
    ModelTransition{M::kLoading, M::kReady},
    ModelTransition{M::kLoading, M::kDraining},
    ModelTransition{M::kLoading, M::kUnloaded},
    ModelTransition{M::kLoading, M::kFailed},
    ModelTransition{M::kWarming, M::kPlacing},
    ModelTransition{M::kWarming, M::kReady},
    ModelTransition{M::kWarming, M::kDraining},
    ModelTransition{M::kWarming, M::kUnloaded},
    ModelTransition{M::kWarming, M::kFailed},
    ModelTransition{M::kReady, M::kPlacing},
    ModelTransition{M::kReady, M::kDraining},
    ModelTransition{M::kReady, M::kUnloaded},
    ModelTransition{M::kReady, M::kFailed},
    ModelTransition{M::kDraining, M::kPlacing},  // requested again
    ModelTransition{M::kDraining, M::kReady},
    ModelTransition{M::kDraining, M::kUnloaded},
    ModelTransition{M::kDraining, M::kFailed},
    ModelTransition{M::kUnloaded, M::kRegistered},  // the file was replaced
    ModelTransition{M::kUnloaded, M::kPlacing},
    ModelTransition{M::kUnloaded, M::kReady},
    ModelTransition{M::kFailed, M::kRegistered},
    ModelTransition{M::kFailed, M::kPlacing},
    ModelTransition{M::kFailed, M::kReady},
    ModelTransition{M::kFailed, M::kUnloaded},
};

constexpr std::array<std::string_view, 8> kChangeNames = {"dispatched",  "requeued",  "succeeded",
                                                          "failed",      "cancelled", "expired",
                                                          "quarantined", "released"};

}  // namespace

std::string_view change_name(RequestChange change) {
  return kChangeNames.at(static_cast<std::size_t>(change));
}

std::span<const RequestTransition> request_transitions() {
  return kRequestTransitions;
}

std::optional<std::size_t> find_transition(RequestState state, RequestChange change) {
  const auto found = std::find_if(kRequestTransitions.begin(), kRequestTransitions.end(),
                                  [&](const RequestTransition& transition) {
                                    return transition.from == state && transition.change == change;
                                  });
  if (found == kRequestTransitions.end()) return std::nullopt;
  return static_cast<std::size_t>(found - kRequestTransitions.begin());
}

std::optional<RequestState> next_state(RequestState state, RequestChange change) {
  const auto transition = find_transition(state, change);
  if (!transition) return std::nullopt;
  return kRequestTransitions[*transition].to;
}

std::span<const ModelTransition> model_transitions() {
  return kModelTransitions;
}

bool legal_change(ModelState from, ModelState to) {
  return std::any_of(kModelTransitions.begin(), kModelTransitions.end(),
                     [&](const ModelTransition& a) { return a.from == from && a.to == to; });
}

}  // namespace holdfast::core
