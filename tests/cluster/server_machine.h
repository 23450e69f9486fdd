#pragma once
// The machine of a server in a test of several machines, and its command line.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cluster/namespaces.h"

namespace holdfast::cluster {

constexpr int kServer = 0;  // its number
constexpr int kPatienceS = 120;

/// HTTP of the server, for other machines too.
enum class ServerHttp : std::uint8_t { kNone, kListens };

class ServerMachine {
 public:
  explicit ServerMachine(Machines& machines, ServerHttp http = ServerHttp::kNone)
      : machines_(machines), http_(http) {}

  /// Starts `serve` with the listener; waits until it is ready.
  void start(const std::vector<std::string>& flags);
  /// The exit code and the output of a verb there; the errors, if it fails.
  std::pair<int, std::string> cli(std::vector<std::string> args);
  /// Starts a verb there.
  std::unique_ptr<Program> begin(std::vector<std::string> args);
  void stop();  // in order
  std::string errors() const { return program_->errors(); }
  std::string daemon_log() const;
  std::string state() const { return machines_.dir() + "/server"; }
  static std::string url() { return "http://" + Machines::address(kServer) + ":8080"; }
  static std::string listener() { return "tcp://" + Machines::address(kServer) + ":7070"; }

 private:
  Machines& machines_;
  const ServerHttp http_;
  std::unique_ptr<Program> program_;
};

}  // namespace holdfast::cluster
