#pragma once
// Sockets of this machine by their path, for this user alone.

#include <sys/types.h>

#include <string>

#include "shared/base/result.h"

namespace holdfast {

/// Listens at `path`, in place of a socket that an earlier process left there; only this user may
/// connect. `type`: SOCK_STREAM or SOCK_SEQPACKET. Returns the descriptor, which does not block.
/// kIo says which call failed and why.
Result<int> listen_locally(const std::string& path, int type, int backlog);

/// Connects to `path`. Returns the descriptor, or -1 if nobody listens there. `patience_s`: how
/// long connecting, and every later call on the descriptor, may wait; 0: without end.
int connect_locally(const std::string& path, int type, int patience_s = 0);

/// Returns the process at the other end of a connection; 0 if it is another user's.
pid_t peer_process(int connection);

}  // namespace holdfast
