#pragma once
// UDP sockets at the addresses of listeners. No call blocks. A socket belongs to one thread.

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "shared/base/process_view.h"
#include "shared/base/result.h"

namespace holdfast::wire {

/// A peer's address, IPv4 or IPv6.
struct UdpAddress {
  sockaddr_storage bytes{};
  socklen_t length = 0;
};

/// A socket for datagrams.
class UdpSocket {
 public:
  /// Binds to the host and port of "tcp://ADDRESS:PORT" (numbers, not names). kUsage for another
  /// form; kIo with the endpoint and the cause.
  static Result<UdpSocket> bind(const std::string& endpoint);
  /// Opens a socket that sends to that address, and receives from everybody: a host with several
  /// addresses may answer from another one. Errors as bind().
  static Result<UdpSocket> open_to(const std::string& endpoint);

  /// Sends to the address of open_to(). False if the kernel refused; the datagram is lost then, as
  /// any may be.
  bool send(std::string_view datagram) const { return send_to(peer_, datagram); }
  bool send_to(const UdpAddress& to, std::string_view datagram) const;
  /// Returns the next datagram and its sender; nullopt: none waits. What is longer than
  /// kDatagramBytesMax comes cut to one byte above it.
  std::optional<std::string> receive(UdpAddress* from = nullptr) const;
  /// Returns the descriptor, which stays owned here.
  int fd() const { return fd_.get(); }

 private:
  explicit UdpSocket(OwnedFd fd) : fd_(std::move(fd)) {}
  OwnedFd fd_;
  UdpAddress peer_;
};

}  // namespace holdfast::wire
