#pragma once
// Load from clients: a fixed number of submissions in flight, or a fixed rate; and streams that
// measure the age of each token.

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

/// Counts and times of a load.
struct LoadResult {
  std::vector<double> latency_ms;  // of accepted ones, from the call (or its due time) to ACCEPTED
  std::int64_t accepted = 0;
  std::int64_t refused = 0;  // typed refusals and failures
  std::string first_failure;
  double seconds = 0;
  double rate() const { return seconds == 0 ? 0 : static_cast<double>(accepted) / seconds; }
};

using MakeSubmit = std::function<wire::Submit(std::int64_t number)>;
/// Submissions of prompt ids, which the daemon accepts itself; of text, which goes through an
/// ingress helper first.
wire::Submit ids_submit(std::int64_t number, std::int64_t max_tokens);
wire::Submit text_submit(std::int64_t number, std::int64_t max_tokens);

/// Keeps `in_flight` submissions open over `clients` connections until `count` have been made.
LoadResult closed_load(const std::string& endpoint, int clients, int in_flight, std::int64_t count,
                       const MakeSubmit& make,
                       const std::function<void(const wire::RequestInfo&)>& on_accepted = {});

/// Submissions at a fixed rate on one connection, from construction to stop(), however late the
/// answers are. Latency counts from the time at which each submission was due.
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

/// Streams of requests whose engine stamps its ids with the time: measures the age of each token
/// when the client has it. Thread-safe.
class TokenAges {
 public:
  void watch(client::Client& client, const std::string& request_id);
  /// Forgets all earlier events and begins to count.
  void begin();
  struct Result {
    std::int64_t tokens = 0;
    std::int64_t events = 0;
    std::vector<double> age_ms;  // of a sample of the tokens
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

/// Processes that spin, to keep every core busy. They end with this object.
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
