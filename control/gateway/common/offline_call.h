#pragma once
// A generation without a connection. It is submitted under an id that its caller knows, so that a
// caller that died and comes back finds the same request, and gathered into the answer that a POST
// gets.

#include <functional>
#include <string>

#include "control/gateway/common/context.h"
#include "control/gateway/common/params.h"

namespace holdfast::gateway {

/// The answer to an offline call.
struct OfflineAnswer {
  Response response;
  bool passing = false;      // a refusal; a later try may succeed
  bool whole = true;         // false: cancelled or expired before its end
  bool unreachable = false;  // passing: the daemon did not answer
};

/// Parses the body of an endpoint; nullptr for a path that generates nothing.
using ParseBody = bool (*)(const nlohmann::ordered_json&, const ParamLimits&, Generation*,
                           FieldError*);
ParseBody parser_of(std::string_view path);

/// Submits the generation and calls `done` once, on the SDK's I/O thread. The request goes on even
/// if this process dies. While a thread computes on it, the touch journal has its id (blame.h).
void call_offline(Context& context, const client::Principal& principal, Generation generation,
                  const std::string& request_id, std::function<void(OfflineAnswer)> done);

}  // namespace holdfast::gateway
