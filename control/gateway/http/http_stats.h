#pragma once
// Counters of the gateway's own work, for /metrics.

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "control/gateway/http/exchange.h"

namespace holdfast::gateway {

/// Counters of the HTTP server. Thread-safe. Keys are routes of the router's table and the statuses
/// that we answer with, so their number is bounded whatever clients ask for.
class HttpStats {
 public:
  void answered(const RouteName& route, int status) {
    const std::lock_guard lock(mutex_);
    ++answers_[{std::string(route.method), std::string(route.pattern), status}];
  }
  using Answers = std::map<std::tuple<std::string, std::string, int>, std::uint64_t>;
  Answers answers() const {  // method, path pattern, status
    const std::lock_guard lock(mutex_);
    return answers_;
  }

  std::atomic<std::int64_t> connections{0};   // open
  std::atomic<std::int64_t> streams{0};       // answers that are being streamed
  std::atomic<std::int64_t> held_streams{0};  // streams whose reader is slow, so the daemon waits
  std::atomic<std::uint64_t> connections_accepted{0};
  std::atomic<std::uint64_t> connections_refused{0};  // beyond the limits
  std::atomic<std::uint64_t> strangers_dropped{0};    // gave way to a newer one without a key
  std::atomic<std::uint64_t> readers_cut_off{0};      // took no byte for too long
  std::atomic<std::uint64_t> bytes_received{0};
  std::atomic<std::uint64_t> bytes_sent{0};

 private:
  mutable std::mutex mutex_;
  Answers answers_;
};

}  // namespace holdfast::gateway
