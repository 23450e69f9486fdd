#pragma once
// A steady load with kills: requests at a fixed rate, each followed to its end and compared with
// the first run of its kind, while processes are killed in turn.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bench/lib/local_cluster.h"
#include "bench/lib/report.h"

namespace holdfast::bench {

struct SoakOptions {
  std::string programs, model, scratch;
  double hours = 24;
  double kill_every_s = 10;     // 0: never
  double share = 0.7;           // of the workers' capacity
  std::string engine = "fake";  // or "model": the real one
  /// A state directory that outlives the run, so that runs of several days add up; empty: a
  /// temporary one.
  std::string state;
  std::string sum;  // the record in which the runs on `state` add up; empty: none
};

using FirstTokens = std::map<std::int64_t, std::vector<wire::TokenId>>;  // by kind of request

/// Requests from a pool of kinds, so that every kind repeats: its tokens must be the same each
/// time, whichever process was killed meanwhile. One thread submits; handlers run on the client's
/// own.
class SteadyLoad {
 public:
  /// `first`: the tokens of each kind from an earlier run, which these must equal.
  SteadyLoad(std::unique_ptr<client::Client> client, double per_second, FirstTokens first = {});
  ~SteadyLoad();
  struct Counts {
    std::int64_t submitted = 0, accepted = 0, refused = 0, succeeded = 0, failed = 0, wrong = 0;
    std::vector<double> took_ms;  // submission to FIN
    std::string first_problem;
  };
  /// Stops submitting and waits until all requests have ended, at most `patience_s`.
  Counts finish(double patience_s);
  std::int64_t open() const;
  FirstTokens first_tokens() const;

 private:
  void run(double per_second);
  void submit(std::int64_t number);
  void follow(std::int64_t kind, const std::string& id, std::int64_t begin_us);
  void ended(std::int64_t kind, const std::vector<wire::TokenId>& ids,
             const wire::RequestInfo& info, std::int64_t begin_us);
  void problem(const std::string& what);

  mutable std::mutex mutex_;
  Counts counts_;
  std::int64_t open_ = 0;
  FirstTokens first_;
  bool stop_ = false;
  std::unique_ptr<client::Client> client_;  // its thread ends before the rest is destroyed
  std::thread thread_;
};

/// Runs the whole soak; figures and problems go into the report.
Result<void> run_soak(const SoakOptions& options, Report& report);

}  // namespace holdfast::bench
