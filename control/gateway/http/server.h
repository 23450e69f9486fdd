#pragma once
// The HTTP listener: connections, limits, time limits. The handler interprets the requests.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/gateway/http/exchange.h"
#include "control/gateway/http/http_parse.h"
#include "control/gateway/http/http_stats.h"
#include "shared/base/probe.h"
#include "shared/base/result.h"

namespace holdfast::gateway {

class TlsIdentity;

/// Limits of a server.
struct ServerLimits {
  ParseLimits parse;
  std::chrono::milliseconds header_time{5'000};       // until the head is complete
  std::chrono::milliseconds body_time{10'000};        // from there until the body is complete
  std::chrono::milliseconds idle_time{60'000};        // between requests of a connection
  std::chrono::milliseconds stall_time{15'000};       // of a write that sends no byte
  std::chrono::milliseconds keep_alive_time{10'000};  // silence in a stream
  std::chrono::milliseconds drain_time{10'000};       // for running answers after stop()
  int connections_per_address = 256;                  // of an IPv6 network of 64 bits; 0 = no limit
  int connections_per_tenant = 4'096;                 // 0 = no limit
  int connections = 8'192;
  std::chrono::milliseconds upload_time{300'000};  // from the head to the whole body of a file
  std::chrono::milliseconds upload_wait{10'000};   // for a slot
  std::chrono::milliseconds upload_look{10'000};   // between two checks while others wait
  std::size_t upload_progress = 256 * 1024;        // bytes that must have come by then
  int uploads = 4;                                 // files in memory at once
  // Strangers: connections that have not shown a key, where one is needed.
  int strangers = 64;
  std::chrono::milliseconds stranger_header_time{2'000};
  std::chrono::milliseconds stranger_idle_time{5'000};
};

/// The caller, as far as the head of a request tells.
struct Caller {
  bool authenticated = false;  // false: a stranger, whose body is not read
  std::string tenant;
};
/// Judges requests before anything is spent on them. Without functions there are no strangers.
struct Gate {
  /// True if no key is needed, so that connections are not told apart.
  std::function<bool()> open;
  /// Returns nullopt if the caller is not known yet; then `again` runs on any thread when asking
  /// again is worth while. Without `again` it always returns a caller.
  std::function<std::optional<Caller>(const Request& head, std::function<void()> again)> look;
};

/// The listener with its threads.
class Server {
 public:
  using Handler = std::function<void(ExchangePtr)>;

  /// Listens on `fd` if it is >= 0 (a listening socket that was handed down), else binds
  /// `host_port` ("127.0.0.1:8080", "[::1]:0"). Fails with kConflict if the port is in use, kUsage
  /// for a bad address, kIo otherwise. With `tls` every connection is HTTPS. `gate` tells strangers
  /// from the others.
  static Result<std::unique_ptr<Server>> listen(int fd, const std::string& host_port,
                                                ServerLimits limits, Handler handler,
                                                std::shared_ptr<TlsIdentity> tls = nullptr,
                                                Gate gate = {});
  virtual ~Server() = default;
  /// Serves a further listening socket that was handed down. To be called before run(). Fails as
  /// listen() does.
  virtual Result<void> take(int fd) = 0;
  /// Returns "127.0.0.1:8080", with the port that was bound, of each listening socket.
  virtual std::vector<std::string> addresses() const = 0;
  /// Returns the first of them.
  std::string address() const { return addresses().front(); }
  /// Serves on `threads` threads, the calling one among them, until stop() has done its work.
  virtual void run(int threads) = 0;
  /// Stops: no new connections, idle ones closed, running answers get `drain_time`. What has not
  /// ended by then is told so (Exchange::on_stop). Callable from any thread, once.
  virtual void stop(std::chrono::milliseconds drain_time) = 0;
  /// Answers the supervisor's probes on one of the threads that serve. To be called once, before
  /// run().
  virtual void answer_probes(ProbeAnswer& probe) = 0;
  /// Returns the number of open connections. Callable from any thread.
  virtual int connections() const = 0;
  /// The server's counters. Never null.
  virtual std::shared_ptr<HttpStats> stats() const = 0;
};

}  // namespace holdfast::gateway
