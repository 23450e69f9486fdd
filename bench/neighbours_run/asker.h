#pragma once
// A tenant who asks one small thing after the other, on a connection of its own, and keeps the
// times. What goes wrong is kept too.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "bench/neighbours_run/http.h"

namespace holdfast::bench {

class Asker {
 public:
  /// `kept`: on one connection; else each request has a new one.
  Asker(int port, std::string key, bool kept, double pause_ms);
  ~Asker() { (void)stop(); }
  struct Heard {
    std::vector<double> ms;
    int failures = 0;
    std::string first_failure;
  };
  Heard stop();

 private:
  void run(int port, const std::string& key, bool kept, double pause_ms);
  std::atomic<bool> stop_ = false;
  Heard heard_;
  std::string text_;
  std::thread thread_;
};

/// Adds what was heard to the times; a failure is an error.
Result<void> collect(const Asker::Heard& heard, std::vector<double>* ms);

}  // namespace holdfast::bench
