#pragma once
// The HTTP front of `serve` and of `gateway`: the listening sockets, which the supervisor owns, and
// the gateway that takes them over. A killed gateway refuses nobody: clients wait in the sockets.

#include <string>
#include <vector>

#include "ops/serve/state_dir.h"
#include "ops/serve/supervisor.h"
#include "ops/terminal/call.h"
#include "shared/base/result.h"

namespace holdfast::cli {

/// The sockets, and the flags of the verb that are the gateway's own.
struct HttpFront {
  std::vector<Listener> listeners;  // none: no HTTP
  std::vector<std::string> flags;   // --tls-cert, --tls-key, --cors-origin
};

/// Listens on the sockets that the service manager handed down, else on each --http, else on
/// 127.0.0.1:8080; on nothing for `--http none`. The gateway, a program of `folder`, looks at its
/// flags before. kUsage, kConflict if a port is taken, kIo.
Result<HttpFront> open_http_front(const Call& call, const std::string& folder);

/// Completes the spec of a gateway, which has the program and its address of the daemon: flags and
/// sockets.
void hand_down(const HttpFront& front, ChildSpec& gateway);

}  // namespace holdfast::cli
