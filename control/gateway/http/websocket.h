#pragma once
// WebSockets (RFC 6455) over a connection: Boost.Beast has the protocol, the connection has the
// bytes, TLS, limits and counters. Includes Asio: for connection.cpp and websocket.cpp alone.

#include <memory>

#include "control/gateway/http/connection.h"
#include "control/gateway/http/exchange.h"

namespace holdfast::gateway {

/// Accepts the handshake in the exchange's request. The end of the socket ends the exchange, and
/// the end of the exchange ends the socket.
MessageSocketPtr open_websocket(std::shared_ptr<Connection> connection, ExchangePtr exchange,
                                SocketEvents events, std::size_t bytes_max);

}  // namespace holdfast::gateway
