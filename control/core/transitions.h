#pragma once
// Tables of the legal state changes of requests and models. Every change of a state is looked up
// here; one that is not here is a bug of ours and ends the process. docs/inside/durability.md shows
// them.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "control/core/types.h"

namespace holdfast::core {

/// Changes of a request as a whole.
enum class RequestChange : std::uint8_t {
  kDispatched,   // a choice went to a worker
  kRequeued,     // its last running choice came back
  kSucceeded,    // every choice ended well
  kFailed,       // a choice ended with an error, or the model, or rows that cannot be read
  kCancelled,    // by its client, an operator, or because its last client left
  kExpired,      // a deadline passed
  kQuarantined,  // workers died each time that they ran it
  kReleased,     // an operator let it out of quarantine
};
std::string_view change_name(RequestChange change);  // "dispatched", …

/// A row of the table: `change` leads from one state to another.
struct RequestTransition {
  RequestState from;
  RequestChange change;
  RequestState to;
};
/// All transitions of requests; a terminal state has none that leaves it.
std::span<const RequestTransition> request_transitions();
/// Index in request_transitions(); nullopt where the table has no such transition.
std::optional<std::size_t> find_transition(RequestState state, RequestChange change);
/// The state after `change`; nullopt where the table has no such transition.
std::optional<RequestState> next_state(RequestState state, RequestChange change);

/// A row of the table: a model may go from one state to the other.
struct ModelTransition {
  ModelState from;
  ModelState to;
};

/// Returns every transition that a model may make.
std::span<const ModelTransition> model_transitions();
/// Returns true for registered → placing → loading → warming → ready → draining → unloaded |
/// failed, and the ways back (a lost worker, a retry, a new load).
bool legal_change(ModelState from, ModelState to);

}  // namespace holdfast::core
