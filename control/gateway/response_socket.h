#pragma once
// The WebSocket of /v1/responses: each message `response.create` is a POST of its own, one after
// the other, and what would be events of a stream are messages. Turns go on from each other without
// being stored.

#include "control/gateway/conversation.h"
#include "control/gateway/router.h"

namespace holdfast::gateway {

/// What a turn on a WebSocket has beside its body.
struct SocketTurn {
  TurnMemoryPtr memory;   // null: it came as a POST
  bool generates = true;  // false: its input is remembered, and that is all
};

/// endpoint_responses.cpp: answers the request whose body is a turn.
void answer_turn(Context& context, const ExchangePtr& exchange, const SocketTurn& socket);

}  // namespace holdfast::gateway
