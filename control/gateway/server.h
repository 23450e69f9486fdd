#pragma once
// The HTTP listener: connections, limits, time limits. What the requests mean is the handler's.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "control/gateway/exchange.h"
#include "control/gateway/http_parse.h"
#include "control/gateway/http_stats.h"
#include "shared/base/probe.h"
#include "shared/base/result.h"

namespace holdfast::gateway {

class TlsIdentity;

struct ServerLimits {
  ParseLimits parse;
  std::chrono::milliseconds header_time{5'000};       // to the whole head
  std::chrono::milliseconds body_time{10'000};        // from there to the whole body
  std::chrono::milliseconds idle_time{60'000};        // between requests of a connection
  std::chrono::milliseconds stall_time{15'000};       // a write that takes no byte
  std::chrono::milliseconds keep_alive_time{10'000};  // silence in a stream
  std::chrono::milliseconds drain_time{10'000};       // for running answers after stop()
  int connections_per_address = 256;                  // of an IPv6 network of 64 bits; 0 = no limit
  int connections_per_tenant = 4'096;                 // 0 = no limit
  int connections = 8'192;
  std::chrono::milliseconds upload_time{300'000};  // from the head to the whole body of a file
  std::chrono::milliseconds upload_wait{10'000};   // for a slot
  std::chrono::milliseconds upload_look{10'000};   // while others wait, between two looks at it
  std::size_t upload_progress = 256 * 1024;        // bytes that it must have come on by then
  int uploads = 4;                                 // files in memory at once
  // Strangers: connections that have not shown a key, where one is asked for.
  int strangers = 64;
  std::chrono::milliseconds stranger_header_time{2'000};
  std::chrono::milliseconds stranger_idle_time{5'000};
};

/// The caller, as far as the head of a request says.
struct Caller {
  bool known = false;  // else a stranger: its body is not read
  std::string tenant;
};
/// Asked before anything is spent on a request. Without functions nobody is a stranger.
struct Gate {
  /// No key is asked for: connections are not told apart.
  std::function<bool()> open;
  /// nullopt: not known yet; then `again` runs, on any thread, when it is worth to ask once more.
  /// Without `again` there is an answer.
  std::function<std::optional<Caller>(const Request& head, std::function<void()> again)> look;
};

class Server {
 public:
  using Handler = std::function<void(ExchangePtr)>;

  /// `fd` >= 0: a listening socket that was handed down; else binds `host_port` ("127.0.0.1:8080",
  /// "[::1]:0"). kConflict if the port is in use, kUsage for a bad address, kIo otherwise. With
  /// `tls` every connection is HTTPS. `gate` tells strangers from the others.
  static Result<std::unique_ptr<Server>> listen(int fd, const std::string& host_port,
                                                ServerLimits limits, Handler handler,
                                                std::shared_ptr<TlsIdentity> tls = nullptr,
                                                Gate gate = {});
  virtual ~Server() = default;
  /// "127.0.0.1:8080", with the port that was picked.
  virtual std::string address() const = 0;
  /// Serves on `threads` threads, the calling one among them, until stop() has done its work.
  virtual void run(int threads) = 0;
  /// Any thread, once: no new connections, idle ones closed, running answers get `drain_time`. What
  /// has not ended by then is told so (Exchange::on_stop).
  virtual void stop(std::chrono::milliseconds drain_time) = 0;
  /// Answers the supervisor's probes from one of the threads that serve. Before run(), once.
  virtual void answer_probes(ProbeAnswer& probe) = 0;
  /// Any thread: connections now open.
  virtual int connections() const = 0;
  /// What it has counted. Never null.
  virtual std::shared_ptr<HttpStats> stats() const = 0;
};

}  // namespace holdfast::gateway
