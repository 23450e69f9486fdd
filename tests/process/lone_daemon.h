#pragma once
// holdfastd by itself, without supervisor, workers and gateway: for tests of its state directory
// and of operators' verbs. Much faster to start than a whole server.

#include <sys/types.h>

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "shared/wire/socket.h"

namespace holdfast::process {

class LoneDaemon {
 public:
  explicit LoneDaemon(std::string state_dir) : state_(std::move(state_dir)) {}
  ~LoneDaemon();  // SIGKILL if it still runs
  LoneDaemon(const LoneDaemon&) = delete;

  /// Starts it with `--config` for each of `config`; waits until it answers. False if it ended
  /// instead: exit_code() and log() say why.
  bool start(const std::vector<std::string>& config = {});
  /// Sends the signal and waits for the end. Returns the exit code, or -signal.
  int end(int signal);
  /// The document of an operator's verb; {"refused", "why", "largest"} for a refusal, null without
  /// an answer in `patience_ms`. A connection of its own each time, so from any thread.
  nlohmann::json op(const std::string& verb, const nlohmann::json& args,
                    int patience_ms = 10'000) const;
  nlohmann::json op(const std::string& verb) const;

  const std::string& state() const { return state_; }
  pid_t pid() const { return pid_; }
  bool runs();  // also reaps the process
  int exit_code() const { return exit_code_; }
  std::string log() const;

 private:
  bool reap(int patience_ms);
  std::string state_;
  pid_t pid_ = 0;
  int exit_code_ = -1;
};

}  // namespace holdfast::process
