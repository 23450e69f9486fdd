#pragma once
// Works on batches: each line is a durable request whose id is made of the batch's and the line's
// number, so whoever goes on after a crash finds the requests that were made before. Results are
// put behind the output file in the order of the lines, together with how far they are: no line is
// lost, none is there twice.

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "control/gateway/router.h"

namespace holdfast::gateway {

struct BatchRunnerOptions {
  int batches = 4;  // worked on at once, each by a thread
  int lines = 64;   // of each batch in flight
  std::int64_t lease_ms = 3'000;
  std::int64_t look_ms = 1'000;  // for new ones
};

class BatchRunner {
 public:
  /// `context` must outlive it. Begins at once.
  BatchRunner(Context& context, BatchRunnerOptions options = {});
  /// Stops; what is in flight goes on in the daemon and is found by whoever comes next.
  ~BatchRunner();
  BatchRunner(const BatchRunner&) = delete;
  /// There may be a new one. Any thread.
  void wake();

 private:
  void run(int number);
  bool wait(std::int64_t ms);

  Context& context_;
  const BatchRunnerOptions options_;
  const std::string name_;  // of this gateway's life
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::uint64_t wakes_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace holdfast::gateway
