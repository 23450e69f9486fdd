#pragma once
// The user of this machine that holds the other end of a loopback connection. The kernel tells it
// over SOCK_DIAG; where that gives no answer, /proc/net/tcp and tcp6 are read.

#include <sys/types.h>

#include <mutex>
#include <optional>
#include <string>

#include "control/gateway/http/http_types.h"

namespace holdfast::gateway {

/// Finds the users of peers. Thread-safe. All its descriptors are opened by the constructor, so it
/// works within a sandbox.
class PeerUsers {
 public:
  /// With `ask_kernel` false it reads /proc alone, as on a kernel without SOCK_DIAG.
  explicit PeerUsers(bool ask_kernel = true);
  ~PeerUsers();
  PeerUsers(const PeerUsers&) = delete;
  PeerUsers& operator=(const PeerUsers&) = delete;

  /// Returns the user of the client's end. Returns nullopt if no process holds it any more (the
  /// kernel then names root), if it is on another machine, or if the kernel does not tell.
  std::optional<uid_t> find(const TcpEnds& ends);

 private:
  struct Holder {
    uid_t user = 0;
    std::uint64_t inode = 0;  // 0: no process holds it
  };
  static std::optional<uid_t> user_of(const Holder& first, const Holder& second);
  std::optional<Holder> ask(const TcpEnds& ends);
  std::optional<Holder> read(const TcpEnds& ends);

  std::mutex mutex_;
  int diag_ = -1;
  int tcp_ = -1, tcp6_ = -1;
};

/// Returns 401 for a peer of a gateway without keys that is neither root nor `gateway_uid`.
std::optional<Response> refuse_other_user(std::optional<uid_t> peer, uid_t gateway_uid);

/// Reads a line of /proc/net/tcp or tcp6. Returns user and inode of the connection if the line is
/// about it.
std::optional<std::pair<uid_t, std::uint64_t>> holder_in_line(const std::string& line,
                                                              const TcpEnds& ends);

}  // namespace holdfast::gateway
