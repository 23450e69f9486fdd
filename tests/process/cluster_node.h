#pragma once
// A node of a test: `holdfast node` on this machine, with a state directory of its own, joined to a
// server that listens on loopback.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/process/running.h"
#include "tests/process/test_server.h"

namespace holdfast::process {

/// Flags of a server without workers that listens for nodes on a free port, and has no HTTP.
std::vector<std::string> listening(std::vector<std::string> more = {});
/// The address at which a server listens for other machines.
std::string listener_of(const TestServer& server);

class ClusterNode {
 public:
  /// Makes a key `name` at the server. A failure shows in join().
  ClusterNode(const TestServer& server, const std::string& name);
  /// Starts the node and waits for "joined NAME". False if it ended, or took too long.
  bool join(const std::vector<std::string>& flags);
  /// Sends a signal to the node's supervisor; returns its exit code, or -signal.
  int end(int signal, int patience_s = 30) { return node_->end(signal, patience_s); }
  /// Waits for its end by itself.
  int wait(int patience_s) { return node_->end(0, patience_s); }

  /// The pid of one of its workers; 0: it does not run now.
  pid_t worker_pid(const std::string& worker = "worker-0") const;
  const std::string& name() const { return name_; }
  std::string key_file() const { return dir_.path() + "/key"; }
  /// Waits until its output has `text`.
  bool says(const std::string& text, int patience_s = 30) const {
    return node_ && node_->says(text, patience_s);
  }
  std::string output() const { return node_ ? node_->output() : std::string(); }
  /// The row of `nodes list`; null if there is none.
  nlohmann::json row() const;
  /// Waits until its state is one of `states`.
  bool reaches(const std::string& state, int patience_ms = 10'000) const;

 private:
  const TestServer& server_;
  std::string name_;
  TempDir dir_;
  std::unique_ptr<Running> node_;
};

}  // namespace holdfast::process
