#pragma once
// Addresses of a host by its name, within a limit of time. The system's look-up has none: while a
// name server is dead it can take minutes. So it runs on a thread of its own, which is left behind
// when the time is over; few are, and a name that is being looked up is not looked up twice.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace holdfast::gateway {

struct NamesFound {
  std::vector<std::string> addresses;  // in numbers
  std::string error;                   // why there is none, for people
};

/// Thread-safe.
class NameLookup {
 public:
  using Resolver = std::function<NamesFound(const std::string& host)>;
  static constexpr int kThreadsMax = 16;  // that look up or are left behind

  /// Without a resolver the system's.
  explicit NameLookup(Resolver resolver = {});
  /// `stopping`: true: give up now.
  NamesFound find(const std::string& host, std::chrono::milliseconds limit,
                  const std::function<bool()>& stopping = {});

 private:
  struct Job {
    NamesFound found;
    bool done = false;
    std::chrono::steady_clock::time_point since;
  };
  /// Outlives this object as long as a thread does.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::string, std::shared_ptr<Job>> jobs;  // by host
  };
  Resolver resolver_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// The look-up of the process.
NameLookup& name_lookup();

}  // namespace holdfast::gateway
