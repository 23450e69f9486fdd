#pragma once
// The authentication of ZeroMQ: a socket with CURVE asks this handler about each new connection
// before any of its frames is read. https://rfc.zeromq.org/spec/27/

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/result.h"
#include "shared/wire/socket.h"

namespace holdfast::wire {

/// The handler of a context: at most one each. Belongs to one thread. Sockets of the context whose
/// SocketOptions::curve_server is set wait for its answers.
class ZapHandler {
 public:
  /// Decides about the owner of a public key (Z85). nullopt: it is refused. Else the name that
  /// Received::user_id has of every frame of the connection.
  using Judge = std::function<std::optional<std::string>(const std::string& public_key)>;

  /// Binds the handler's address of the context. kIo.
  static Result<ZapHandler> open(const Context& context);
  ZapHandler(ZapHandler&& other) noexcept;
  ZapHandler& operator=(ZapHandler&& other) noexcept;
  ~ZapHandler();

  /// Answers the questions that wait, 64 at most; never blocks.
  void answer(const Judge& judge);
  /// The libzmq socket, for WaitItem::zmq.
  void* raw() const { return socket_; }
  /// Number of connections that were let in and refused.
  std::uint64_t accepted() const { return accepted_; }
  std::uint64_t refused() const { return refused_; }

 private:
  explicit ZapHandler(void* socket) : socket_(socket) {}
  bool answer_one(const Judge& judge);

  void* socket_;
  std::uint64_t accepted_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace holdfast::wire
