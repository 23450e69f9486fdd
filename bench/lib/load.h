#pragma once
// Load from clients: a fixed number of submissions in flight, or a fixed rate; and streams that
// measure how old each token is.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bench/lib/stats.h"
#include "shared/client/client.h"

namespace holdfast::bench {

struct LoadResult {
  std::vector<double> latency_ms;  // of accepted ones, from the call (or its due time) to ACCEPTED
  std::int64_t accepted = 0;
  std::int64_t refused = 0;  // typed refusals and failures
  std::string first_failure;
  double seconds = 0;
  double rate() const { return seconds == 0 ? 0 : static_cast<double>(accepted) / seconds; }
};

using MakeSubmit = std::function<wire::Submit(std::int64_t number)>;
/// Prompt ids: the daemon accepts them itself. Text: goes through an ingress helper first.
wire::Submit ids_submit(std::int64_t number, std::int64_t max_tokens);
wire::Submit text_submit(std::int64_t number, std::int64_t max_tokens);

/// Keeps `in_flight` submissions open over `clients` connections until `count` were made.
LoadResult closed_load(const std::string& endpoint, int clients, int in_flight, std::int64_t count,
                       const MakeSubmit& make,
                       const std::function<void(const wire::RequestInfo&)>& on_accepted = {});

/// Submissions at a fixed rate on one connection, late or not, from construction to stop().
/// Latency counts from the time at which each was due.
class PacedLoad {
 public:
  PacedLoad(const std::string& endpoint, double per_second, MakeSubmit make);
  ~PacedLoad();
  LoadResult stop();

 private:
  struct Shared;
  void run(double per_second);
  MakeSubmit make_;
  std::unique_ptr<client::Client> client_;
  std::shared_ptr<Shared> shared_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// Streams of requests whose engine stamps its ids with the time: how old is each token when the
/// client has it? Thread-safe.
class TokenAges {
 public:
  void watch(client::Client& client, const std::string& request_id);
  /// Forgets what was heard so far and begins to count.
  void begin();
  struct Result {
    std::int64_t tokens = 0;
    std::int64_t events = 0;
    std::vector<double> age_ms;  // a sample of them
    std::int64_t failures = 0;
  };
  Result end();
  std::int64_t finished() const { return finished_.load(); }

 private:
  std::mutex mutex_;
  bool counting_ = false;
  Result result_;
  std::atomic<std::int64_t> finished_{0};
};

/// Processes that spin, to keep every core busy. They end with this.
class Spinners {
 public:
  explicit Spinners(int count);
  ~Spinners();
  Spinners(const Spinners&) = delete;
  Spinners& operator=(const Spinners&) = delete;

 private:
  std::vector<pid_t> pids_;
};

}  // namespace holdfast::bench
