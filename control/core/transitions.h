#pragma once
// The tables of legal state changes of requests and models. Every change of a state is looked up
// here; what is not here is a bug of ours and ends the process. docs/durability.md shows them.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "control/core/types.h"

namespace holdfast::core {

/// What can happen to a request as a whole.
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

struct RequestArrow {
  RequestState from;
  RequestChange change;
  RequestState to;
};
/// All of them; a terminal state has none that leaves it.
std::span<const RequestArrow> request_arrows();
/// Index in request_arrows(), nullopt where the table has no such arrow.
std::optional<std::size_t> find_arrow(RequestState state, RequestChange change);
/// The state after `change`.
std::optional<RequestState> next_state(RequestState state, RequestChange change);

struct ModelArrow {
  ModelState from;
  ModelState to;
};
std::span<const ModelArrow> model_arrows();
/// registered → placing → loading → warming → ready → draining → unloaded | failed, and the ways
/// back (a lost worker, a retry, a new load).
bool legal_change(ModelState from, ModelState to);

}  // namespace holdfast::core
