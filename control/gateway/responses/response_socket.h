#pragma once
// The WebSocket of /v1/responses: each message `response.create` is a POST of its own, one after
// the other, and what would be events of a stream are messages. Turns can continue each other
// without being stored.

#include "control/gateway/common/context.h"
#include "control/gateway/responses/conversation.h"

namespace holdfast::gateway {

/// The WebSocket of a turn, if it came over one.
struct SocketTurn {
  TurnMemoryPtr memory;   // null: it came as a POST
  bool generates = true;  // false: its input is only remembered
};

/// Answers the request whose body is a turn. Defined in endpoint_responses.cpp.
void answer_turn(Context& context, const ExchangePtr& exchange, const SocketTurn& socket);

}  // namespace holdfast::gateway
