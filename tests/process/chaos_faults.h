#pragma once
// Faults of a running server: SIGKILL, SIGSTOP and crash points, counted.

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/process/test_server.h"

namespace holdfast::process {

/// A client in a process of its own, started again after each death.
class ClientProcess {
 public:
  ClientProcess(std::string endpoint, std::string specs_path, std::string log_prefix);
  ~ClientProcess();
  ClientProcess(const ClientProcess&) = delete;
  void start();
  void kill_and_restart();
  void pause(int ms);
  /// Sends SIGTERM and waits for the end; false if it did not come in time.
  bool stop();
  const std::vector<std::string>& logs() const { return logs_; }

 private:
  std::string endpoint_, specs_path_, log_prefix_;
  std::vector<std::string> logs_;
  pid_t pid_ = 0;
};

/// Faults for one server. Main thread only (the server's death signal is tied to the thread that
/// starts it).
class Faults {
 public:
  Faults(TestServer& server, std::vector<std::string> flags, ClientProcess& client,
         std::string crash_file, std::uint64_t seed);

  /// Sends SIGKILL to a role ("daemon", "worker-0", …, "client", "supervisor"); returns when its
  /// next process is there. An empty string, or what went wrong.
  std::string kill_role(const std::string& role);
  /// Sends SIGSTOP, and SIGCONT after `ms`.
  void pause_role(const std::string& role, int ms);
  /// Lets the process of a point die at it. An empty string, or what went wrong.
  std::string die_at(std::string_view point);

  const std::map<std::string, int>& kills() const { return kills_; }
  const std::map<std::string, int>& pauses() const { return pauses_; }
  const std::map<std::string, int>& deaths() const { return deaths_; }  // by point
  std::string url() const;                                              // from any thread

 private:
  bool wait_for(const std::function<bool()>& done, int patience_ms) const;
  bool restart_server();
  std::string kill_supervisor();
  std::string arm(std::string_view point, int passes);
  bool claimed(const std::string& program) const;
  int fired(std::string_view point) const;
  void begin_way_to(std::string_view point);
  void nudge(std::string_view point);
  std::string try_to_die_at(std::string_view point, int passes, int before);
  std::string die_at_supervisor(std::string_view point, int before);
  std::string operate(const std::string& verb, const std::string& args) const;
  void stop_orderly(const std::string& role) const;

  TestServer& server_;
  std::vector<std::string> flags_;
  ClientProcess& client_;
  std::string crash_file_;
  std::mt19937_64 random_;
  std::map<std::string, int> kills_, pauses_, deaths_;
  mutable std::mutex mutex_;
  std::string url_;  // under mutex_
  bool spare_loaded_ = false;
  int others_ = 0;  // models registered to have their file inspected
};

}  // namespace holdfast::process
