#pragma once
// Which user of this machine holds the other end of a loopback connection. The kernel knows: it is
// asked by SOCK_DIAG, and where it does not answer that /proc/net/tcp and tcp6 are read.

#include <sys/types.h>

#include <mutex>
#include <optional>
#include <string>

#include "control/gateway/http_types.h"

namespace holdfast::gateway {

/// Thread-safe. Everything that it needs is open from its construction on.
class PeerUsers {
 public:
  /// `ask_kernel` false: reads /proc alone, as on a kernel without SOCK_DIAG.
  explicit PeerUsers(bool ask_kernel = true);
  ~PeerUsers();
  PeerUsers(const PeerUsers&) = delete;
  PeerUsers& operator=(const PeerUsers&) = delete;

  /// The user of the client's end. nullopt: no process holds it any more (what is left of it
  /// belongs to root by its look), it is on another machine, or the kernel does not say.
  std::optional<uid_t> find(const TcpEnds& ends);

 private:
  struct Holder {
    uid_t user = 0;
    std::uint64_t inode = 0;  // 0: no process holds it
  };
  std::optional<Holder> ask(const TcpEnds& ends);
  std::optional<Holder> read(const TcpEnds& ends);

  std::mutex mutex_;
  int diag_ = -1;
  int tcp_ = -1, tcp6_ = -1;
};

/// 401 for a peer of a gateway without keys who is neither root nor `own`, the gateway's user.
std::optional<Response> refuse_other_user(std::optional<uid_t> peer, uid_t own);

/// A line of /proc/net/tcp or tcp6: whose the connection is, if it is this one.
std::optional<std::pair<uid_t, std::uint64_t>> holder_in_line(const std::string& line,
                                                              const TcpEnds& ends);

}  // namespace holdfast::gateway
