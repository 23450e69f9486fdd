#pragma once
// A tenant that sends one small request after the other, on a connection of its own, and records
// the times and failures.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "bench/neighbours_run/http.h"

namespace holdfast::bench {

/// Sends requests from a thread of its own, from construction to stop().
class Asker {
 public:
  /// `reuse_connection`: one connection for all; else each request has a new one.
  Asker(int port, std::string key, bool reuse_connection, double pause_ms);
  ~Asker() { (void)stop(); }
  struct Stats {
    std::vector<double> ms;
    int failures = 0;
    std::string first_failure;
  };
  Stats stop();

 private:
  void run(int port, const std::string& key, bool reuse_connection, double pause_ms);
  std::atomic<bool> stop_ = false;
  Stats stats_;
  std::string text_;
  std::thread thread_;
};

/// Appends the times to `ms`; a failure is an error.
Result<void> collect(const Asker::Stats& stats, std::vector<double>* ms);

}  // namespace holdfast::bench
