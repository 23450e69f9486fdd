#pragma once
// Addresses of a host by its name, within a time limit. The system's look-up has none: while a name
// server is dead it can take minutes. So it runs on a thread of its own, which is left behind when
// the time is over. The number of such threads is bounded, and a name that is being looked up is
// not looked up a second time.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace holdfast::gateway {

/// The result of a look-up.
struct NamesFound {
  std::vector<std::string> addresses;  // numeric
  std::string error;                   // why there is none, for people
};

/// Looks names up on threads. Thread-safe.
class NameLookup {
 public:
  using Resolver = std::function<NamesFound(const std::string& host)>;
  static constexpr int kThreadsMax = 16;  // running or left behind

  /// Uses the system's resolver if `resolver` is empty.
  explicit NameLookup(Resolver resolver = {});
  /// Returns the addresses, or an error when `limit` is over or `stopping` returns true. Blocks; a
  /// second caller for a name waits only for the rest of the first one's time.
  NamesFound find(const std::string& host, std::chrono::milliseconds limit,
                  const std::function<bool()>& stopping = {});

 private:
  struct Job {
    NamesFound found;
    bool done = false;
    std::chrono::steady_clock::time_point since;
  };
  /// State that outlives this object as long as a thread runs.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::string, std::shared_ptr<Job>> jobs;  // by host
  };
  Resolver resolver_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Returns the look-up of this process.
NameLookup& name_lookup();

}  // namespace holdfast::gateway
