#pragma once
// Checks of memory that workers share, for tests: what is reserved, by the status document and by
// the database, and what the machine has left. And a control group with a limit.

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "shared/client/client.h"
#include "tests/process/test_server.h"

namespace holdfast::process {

/// Returns a verb's document; an empty object where it failed.
nlohmann::json ask(client::Client& client, const char* verb, const nlohmann::json& args);
nlohmann::json ask(client::Client& client, const char* verb);

/// The greatest sum of reservations seen, against what may be reserved, and the least memory that
/// the machine had available.
class MemoryWatch {
 public:
  MemoryWatch(const TestServer& server, std::int64_t reservable);
  /// Fails the test if more is reserved than may be.
  void look();
  void look_for(int ms);
  /// Looks until no load is in progress.
  void look_until_quiet();
  client::Client& daemon() { return *client_; }
  std::int64_t loads() const { return loads_; }
  std::int64_t most() const { return most_; }
  /// The least available part of the machine's memory, in percent.
  double least_available() const { return least_available_; }

 private:
  const TestServer& server_;
  std::unique_ptr<client::Client> client_;
  const std::int64_t reservable_;
  std::int64_t most_ = 0, loads_ = 0;
  double least_available_ = 100;
};

/// A control group with a memory limit, of whichever version this machine has and allows.
class LimitedGroup {
 public:
  explicit LimitedGroup(std::int64_t limit);
  ~LimitedGroup();
  LimitedGroup(const LimitedGroup&) = delete;
  LimitedGroup& operator=(const LimitedGroup&) = delete;
  bool made() const { return !folder_.empty(); }
  /// Puts this process into it, with all processes that it starts from then on.
  bool enter();
  void leave();
  /// The number of its processes that the kernel has killed for want of memory; -1 = unknown.
  std::int64_t killed() const;

 private:
  std::string folder_, home_;
};

}  // namespace holdfast::process
