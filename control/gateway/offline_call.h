#pragma once
// A generation without a connection: submitted under an id that its caller knows, so that a caller
// that died and comes back finds the same request, and gathered into the answer that a POST gets.

#include <functional>
#include <string>

#include "control/gateway/params.h"
#include "control/gateway/router.h"

namespace holdfast::gateway {

struct OfflineAnswer {
  Response response;
  bool passing = false;      // no answer yet, but a refusal that may be another one later
  bool whole = true;         // false: it was cancelled or its time was over before it had ended
  bool unreachable = false;  // passing: the daemon did not answer
};

/// The parser of an endpoint's bodies; nullptr for a path that makes nothing.
using ParseBody = bool (*)(const nlohmann::ordered_json&, const ParamLimits&, Generation*,
                           FieldError*);
ParseBody parser_of(std::string_view path);

/// `done` runs once, on the SDK's I/O thread. The request goes on whoever dies. While its thread
/// computes on it the id is in the hands of this process (blame.h).
void call_offline(Context& context, const client::Principal& principal, Generation generation,
                  const std::string& request_id, std::function<void(OfflineAnswer)> done);

}  // namespace holdfast::gateway
