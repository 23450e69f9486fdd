#include "shared/wire/udp.h"

#include <netdb.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "shared/wire/liveness.h"

namespace holdfast::wire {
namespace {

constexpr std::string_view kScheme = "tcp://";
// The kernel's own would hold the datagrams of some seconds; of many nodes a stalled daemon would
// lose some. What the kernel does not allow it takes off.
constexpr int kReceiveBytes = 4 << 20;

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

/// Reads "tcp://ADDRESS:PORT".
Result<Addresses> addresses_of(const std::string& endpoint) {
  const std::size_t colon = endpoint.rfind(':');
  if (!endpoint.starts_with(kScheme) || colon < kScheme.size()) {
    return Error{Errc::kUsage, "UDP " + endpoint + ": expected tcp://ADDRESS:PORT"};
  }
  std::string host = endpoint.substr(kScheme.size(), colon - kScheme.size());
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int rc = getaddrinfo(host.c_str(), endpoint.c_str() + colon + 1, &hints, &found);
  if (rc != 0) return Error{Errc::kUsage, "UDP " + endpoint + ": " + gai_strerror(rc)};
  return Addresses(found, &freeaddrinfo);
}

Result<OwnedFd> socket_for(const addrinfo& address, const std::string& endpoint) {
  OwnedFd fd(socket(address.ai_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return Error{Errc::kIo, "UDP " + endpoint + ": " + std::strerror(errno)};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBytes, sizeof kReceiveBytes);
  return fd;
}

}  // namespace

Result<UdpSocket> UdpSocket::bind(const std::string& endpoint) {
  HOLDFAST_TRY(const Addresses found, addresses_of(endpoint));
  HOLDFAST_TRY(OwnedFd fd, socket_for(*found, endpoint));
  if (::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0) {
    return Error{Errc::kIo, "bind UDP " + endpoint + ": " + std::strerror(errno)};
  }
  return UdpSocket(std::move(fd));
}

Result<UdpSocket> UdpSocket::open_to(const std::string& endpoint) {
  HOLDFAST_TRY(const Addresses found, addresses_of(endpoint));
  HOLDFAST_TRY(OwnedFd fd, socket_for(*found, endpoint));
  UdpSocket socket(std::move(fd));
  std::memcpy(&socket.peer_.bytes, found->ai_addr, found->ai_addrlen);
  socket.peer_.length = found->ai_addrlen;
  return socket;
}

bool UdpSocket::send_to(const UdpAddress& to, std::string_view datagram) const {
  const ssize_t n = sendto(fd_.get(), datagram.data(), datagram.size(), MSG_DONTWAIT,
                           reinterpret_cast<const sockaddr*>(&to.bytes), to.length);
  return n == static_cast<ssize_t>(datagram.size());
}

std::optional<std::string> UdpSocket::receive(UdpAddress* from) const {
  std::array<char, kDatagramBytesMax + 1> bytes;
  UdpAddress sender;
  for (int tries = 0; tries < 3; ++tries) {
    sender.length = sizeof sender.bytes;
    const ssize_t n = recvfrom(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT,
                               reinterpret_cast<sockaddr*>(&sender.bytes), &sender.length);
    if (n >= 0) {
      if (from != nullptr) *from = sender;
      return std::string(bytes.data(), static_cast<std::size_t>(n));
    }
    // An answer of a router or host that nobody listens comes as an error of the next call.
    if (errno == EAGAIN) break;
  }
  return std::nullopt;
}

}  // namespace holdfast::wire
