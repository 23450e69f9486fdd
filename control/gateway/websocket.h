#pragma once
// WebSockets (RFC 6455) over a connection: Boost.Beast has the protocol, the connection the bytes,
// with its TLS, its limits and its counters. Includes Asio: for connection.cpp and websocket.cpp.

#include <memory>

#include "control/gateway/connection.h"
#include "control/gateway/exchange.h"

namespace holdfast::gateway {

/// Accepts the handshake that the exchange's request is. The socket ends the exchange at its own
/// end, and ends with it.
MessageSocketPtr open_websocket(std::shared_ptr<Connection> connection, ExchangePtr exchange,
                                SocketEvents events, std::size_t bytes_max);

}  // namespace holdfast::gateway
