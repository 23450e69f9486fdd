#pragma once
// The process that downloads models: looks for open pulls and works on a few at a time.

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "control/fetch/pull_rows.h"
#include "control/fetch/pull_work.h"
#include "shared/client/client.h"

namespace holdfast::fetch {

/// Bounds and places of a fetcher.
struct FetcherOptions {
  std::string endpoint;              // of the daemon's socket
  std::string models_dir;            // absolute, exists
  std::string run_dir;               // where the daemon says where models may lie
  const BlobStore* blobs = nullptr;  // outlives the fetcher
  int pulls = 2;                     // at once
  int look_ms = 500;
};

/// Works until it is stopped.
class Fetcher {
 public:
  explicit Fetcher(FetcherOptions options) : options_(std::move(options)) {}
  ~Fetcher();
  Fetcher(const Fetcher&) = delete;
  Fetcher& operator=(const Fetcher&) = delete;

  /// Runs until request_stop(). An error: the daemon's socket cannot be used.
  Result<void> run();
  /// Ends run() soon; what was downloaded stays. Safe in a signal handler.
  void request_stop() { stopping_ = true; }

 private:
  struct Slot {
    std::thread thread;
    std::atomic<bool> ended = false;
    std::string id;
  };
  void look(PullRows& rows, PullRows& adding);
  void join_ended(bool all);
  bool has(const std::string& id) const;

  FetcherOptions options_;
  std::string boot_id_;
  std::atomic<bool> stopping_ = false;
  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace holdfast::fetch
