#pragma once
// The machine of a server in a test of several machines, and its command line.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cluster/namespaces.h"

namespace holdfast::cluster {

constexpr int kServer = 0;  // its number
constexpr int kPatienceS = 120;

class ServerMachine {
 public:
  explicit ServerMachine(Machines& machines) : machines_(machines) {}

  /// Starts `serve` without HTTP and with the listener; waits until it is ready.
  void start(const std::vector<std::string>& flags);
  /// The exit code and the output of a verb there; the errors, if it fails.
  std::pair<int, std::string> cli(std::vector<std::string> args);
  /// Starts a verb there.
  std::unique_ptr<Program> begin(std::vector<std::string> args);
  void stop();  // in order
  std::string errors() const { return program_->errors(); }
  std::string daemon_log() const;
  std::string state() const { return machines_.dir() + "/server"; }
  static std::string listener() { return "tcp://" + Machines::address(kServer) + ":7070"; }

 private:
  Machines& machines_;
  std::unique_ptr<Program> program_;
};

}  // namespace holdfast::cluster
