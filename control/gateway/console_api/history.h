#pragma once
// The last hour as the console plots it: this gateway asks the daemon for its metrics every few
// seconds and stores what happened in between. It begins with the gateway process.

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

#include "control/gateway/common/daemon_metrics.h"

namespace holdfast::gateway {

/// One reading of the daemon's counters.
struct Reading {
  std::int64_t epoch = 0;                           // of the daemon that counted
  std::map<std::string, double, std::less<>> sums;  // counters and gauges, over all their labels
  struct Times {
    std::vector<double> bounds_s;
    std::vector<double> counts;  // cumulative, one for each bound, then all
  };
  std::map<std::string, Times, std::less<>> times;  // histograms, over all models
};
/// Returns nullopt if the document is no metrics document.
std::optional<Reading> read_metrics(const std::string& document);

/// Returns a quantile of what a histogram counted between two readings, in milliseconds; nullopt if
/// nothing was counted. Within a bucket values are taken to be spread evenly, as Prometheus does.
std::optional<double> quantile_ms(const Reading::Times* before, const Reading::Times& now,
                                  double q);

/// One interval of the history; rates are per second.
struct Sample {
  std::int64_t at_ms = 0;  // end of the interval, wall clock
  bool up = false;         // false: the other members mean nothing
  bool counted = false;    // a reading before it exists, so rates are known
  double tokens = 0, accepted = 0, ended = 0, refused = 0;
  double waiting = 0, running = 0;
  std::optional<double> first_token_p50, first_token_p95, gap_p50, gap_p95;  // ms
};
/// Makes a sample of two readings; `before` is nullopt for the first. The counters of a daemon that
/// was restarted meanwhile count from 0.
Sample make_sample(const std::optional<Reading>& before, const Reading& now, std::int64_t at_ms,
                   double seconds);

/// Returns the document of a gateway without a history.
std::string empty_history_document();

/// The resolution of the history; its length is the product of the two.
struct HistoryOptions {
  std::chrono::milliseconds interval{5'000};
  std::size_t samples = 720;  // an hour at the default interval
};

/// Collects the history on a thread of its own. Thread-safe. `metrics` must answer within its own
/// time limit.
class History {
 public:
  explicit History(std::shared_ptr<DaemonMetrics> metrics, HistoryOptions options = {});
  ~History();
  History(const History&) = delete;

  /// Returns {"interval_ms", "samples_max", "fields": […], "samples": [[…]…]} with the samples that
  /// ended after `since_ms`, oldest first; null where a number is not known.
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
