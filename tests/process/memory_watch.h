#pragma once
// What tests of memory that workers share look at all the time: what is reserved of it, in what
// status says and in the database, and what the machine has left. And a control group with a limit.

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "shared/client/client.h"
#include "tests/process/house.h"

namespace holdfast::process {

/// A verb's document; an empty object where it failed.
nlohmann::json ask(client::Client& client, const char* verb, const nlohmann::json& args);
nlohmann::json ask(client::Client& client, const char* verb);

/// The greatest sum of reservations that was ever seen, over what may be reserved, and the least
/// memory that the machine ever had available.
class MemoryWatch {
 public:
  MemoryWatch(const House& house, std::int64_t reservable);
  /// Fails the test if more is reserved than may be.
  void look();
  void look_for(int ms);
  /// Until no load is in progress.
  void look_until_quiet();
  client::Client& daemon() { return *client_; }
  std::int64_t loads() const { return loads_; }
  std::int64_t most() const { return most_; }
  /// Of the machine's memory, in percent.
  double least_available() const { return least_available_; }

 private:
  const House& house_;
  std::unique_ptr<client::Client> client_;
  const std::int64_t reservable_;
  std::int64_t most_ = 0, loads_ = 0;
  double least_available_ = 100;
};

/// A control group with a memory limit, of whichever version this machine has and lets us make.
class LimitedGroup {
 public:
  explicit LimitedGroup(std::int64_t limit);
  ~LimitedGroup();
  LimitedGroup(const LimitedGroup&) = delete;
  LimitedGroup& operator=(const LimitedGroup&) = delete;
  bool made() const { return !folder_.empty(); }
  /// Puts this process in it, and whoever it starts from now on.
  bool enter();
  void leave();
  /// How many of its processes the kernel has killed for want of memory; -1 = not known.
  std::int64_t killed() const;

 private:
  std::string folder_, home_;
};

}  // namespace holdfast::process
