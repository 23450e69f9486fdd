#pragma once
// The last hour as the console plots it: this gateway asks the daemon for its metrics every few
// seconds and keeps what happened in between. It begins with the gateway's own life.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "control/gateway/daemon_metrics.h"

namespace holdfast::gateway {

/// One look at the daemon's counters.
struct Reading {
  std::int64_t epoch = 0;                           // of the daemon that counted
  std::map<std::string, double, std::less<>> sums;  // counters and gauges, over all their labels
  struct Times {
    std::vector<double> bounds_s;
    std::vector<double> counts;  // cumulative, one for each bound, then all
  };
  std::map<std::string, Times, std::less<>> times;  // histograms, over all models
};
/// nullopt: the document is none.
std::optional<Reading> read_metrics(const std::string& document);

/// A quantile of what a histogram counted between two readings, in milliseconds: within a bucket
/// values are taken to be spread evenly, as Prometheus does. Nothing if nothing was counted.
std::optional<double> quantile_ms(const Reading::Times* before, const Reading::Times& now,
                                  double q);

/// What happened in one interval; rates are of a second.
struct Sample {
  std::int64_t at_ms = 0;  // wall clock, its end
  bool up = false;         // else the rest means nothing
  bool counted = false;    // there was a reading before it, so that rates are known
  double tokens = 0, accepted = 0, ended = 0, refused = 0;
  double waiting = 0, running = 0;
  std::optional<double> first_token_p50, first_token_p95, gap_p50, gap_p95;  // ms
};
/// `before`: nullopt for the first reading. A daemon that was started meanwhile counts from 0.
Sample make_sample(const std::optional<Reading>& before, const Reading& now, std::int64_t at_ms,
                   double seconds);

/// What a gateway says that keeps no history.
std::string empty_history_document();

struct HistoryOptions {
  std::chrono::milliseconds interval{5'000};
  std::size_t samples = 720;  // an hour
};

/// Thread-safe; has a thread of its own. `metrics` must be answered within its own time limit.
class History {
 public:
  explicit History(std::shared_ptr<DaemonMetrics> metrics, HistoryOptions options = {});
  ~History();
  History(const History&) = delete;

  /// {"interval_ms", "samples_max", "fields": […], "samples": [[…]…]}: those that ended after
  /// `since_ms`, oldest first; null where a number is not known.
  std::string document(std::int64_t since_ms) const;

 private:
  void run();
  std::optional<Reading> ask();

  const std::shared_ptr<DaemonMetrics> metrics_;
  const HistoryOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stopping_ = false;
  std::deque<Sample> samples_;
  std::thread thread_;
};

}  // namespace holdfast::gateway
