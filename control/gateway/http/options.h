#pragma once
// The command line of holdfast-gateway.

#include <string>
#include <vector>

#include "control/gateway/http/cors.h"
#include "control/gateway/http/server.h"
#include "shared/base/result.h"
#include "shared/client/peer_key.h"

namespace holdfast::gateway {

/// The settings of the process.
struct Options {
  std::string state;  // directory with the daemon's sockets; with `join` of this gateway's notes
  std::string join;   // "tcp://HOST:PORT" of a daemon on another machine; empty: it is at `state`
  client::PeerKeyFile key;  // with `join`: of the role gateway
  std::string http = "127.0.0.1:8080";
  std::vector<int> http_fds;  // HOLDFAST_HTTP_FD: "5" or "5,6"; they take the place of `http`
  int threads = 2;
  std::chrono::milliseconds daemon_wait{10'000};  // while it is down; then 503
  ServerLimits limits;
  Cors cors;
  std::shared_ptr<TlsIdentity> tls;    // nullptr: plain HTTP
  std::vector<std::string> tls_files;  // reloaded when they are replaced
  std::int64_t memory_bytes = 0;       // bound of the process; 0: memory_for(limits)
  bool check = false;                  // only check these options
};

/// Returns the default memory bound in bytes: every upload twice, as its buffer grows, plus 256 MiB
/// for the rest.
std::int64_t memory_for(const ServerLimits& limits);

/// Reads argv, the environment (HOLDFAST_STATE, HOLDFAST_HTTP_FD) and the files that they name.
/// Fails with a one-line reason: kUsage, and for a key file the errors of client::read_key_file().
/// `exit_code` >= 0: nothing more to do (--help was printed).
Result<Options> read_options(int argc, char** argv, int* exit_code);

}  // namespace holdfast::gateway
