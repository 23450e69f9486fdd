#pragma once
// Works on batches. Each line is a durable request whose id is made of the batch's id and the
// line's number, so the gateway that goes on after a crash finds the requests that were made
// before. Results are appended to the output file in the order of the lines, in one transaction
// with the number of lines done: no line is lost, none is there twice.

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "control/gateway/common/context.h"
#include "control/gateway/objects/open_batches.h"

namespace holdfast::gateway {

/// Bounds and times of one gateway's work on batches; each of its threads has one batch at a time.
struct BatchRunnerOptions {
  int batches = 4;  // worked on at once, each by a thread
  int lines = 64;   // of each batch in flight
  std::int64_t lease_ms = 3'000;
  std::int64_t look_ms = 1'000;    // interval of looking for new batches
  std::int64_t slice_ms = 15'000;  // a tenant's only thread gives way after it to one without
};

/// The threads that work on batches, and one that looks for them. Threads are shared out by tenant
/// (open_batches.h): many or long batches of one tenant do not hold up another tenant's.
class BatchRunner {
 public:
  /// Starts at once. `context` must outlive it.
  BatchRunner(Context& context, BatchRunnerOptions options = {});
  /// Stops. What is in flight goes on in the daemon and is found by the next gateway.
  ~BatchRunner();
  BatchRunner(const BatchRunner&) = delete;
  /// Makes the threads look for a new batch at once. Callable from any thread.
  void wake();

 private:
  void look();
  void run();
  std::optional<OpenBatch> wait_for_batch();
  bool stops(const OpenBatch& batch);

  Context& context_;
  const BatchRunnerOptions options_;
  const std::string name_;  // unique to this gateway process
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool woken_ = false;  // a look is due at once
  OpenBatches open_;
  std::vector<std::thread> threads_;
};

}  // namespace holdfast::gateway
