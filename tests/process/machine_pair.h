#pragma once
// Two machines of a test that are one service: each `serve` with a state directory of its own, and
// a node with workers that knows both.

#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "shared/client/client.h"
#include "tests/process/cut_relay.h"
#include "tests/process/running.h"
#include "tests/process/test_server.h"

namespace holdfast::process {

/// One machine of the pair: `serve` without workers.
class Machine {
 public:
  /// `cable`: the other machine reaches it through a relay, which can be cut.
  Machine(const std::string& dir, const std::string& name, bool cable);

  void start(const std::vector<std::string>& more);
  bool says(const std::string& text) const { return process_->says(text); }
  int stop() { return process_->end(SIGTERM, 30); }
  /// The power goes: all of its processes at once.
  void lose();
  Ended cli(const std::vector<std::string>& args) const { return files_.cli(args); }
  nlohmann::json ask(std::vector<std::string> args) const;
  pid_t daemon() const { return files_.pid_of("daemon"); }
  pid_t supervisor() const { return process_->pid(); }
  /// Waits until `ha status` has this value.
  bool reaches(const char* member, const std::string& value, int patience_ms = 15'000) const;
  /// The value in `ha status` now; empty: nobody answers.
  std::string status(const char* member) const;
  std::string story() const;

  const std::string& url() const { return url_; }  // of clients and nodes
  /// The address that the record has: that of the cable, if there is one.
  std::string pair_url() const { return cable_ ? cable_->url() : url_; }
  const std::string& key() const { return key_; }
  CutRelay& cable() { return *cable_; }

 private:
  std::string url_;
  std::string key_;
  std::unique_ptr<CutRelay> cable_;
  TestServer files_;
  std::unique_ptr<Running> process_;
};

/// Two machines, and a node with workers that knows both.
class MachinePair {
 public:
  explicit MachinePair(bool cables = false);
  /// Starts the first machine, makes the keys, has the second one follow it and the node join.
  /// `record`: of etcd; empty: there is none.
  testing::AssertionResult start(const std::string& record = {});
  /// The flags of a machine that is not the primary, or of the first start.
  std::vector<std::string> flags_of(const std::string& primary) const;
  /// Loads the model "m" of the fake engine, which takes 4 ms for a token.
  testing::AssertionResult serve_model();
  /// A client that knows both machines.
  std::unique_ptr<client::Client> client() const;
  std::string story() const;

 private:
  testing::AssertionResult wrong(const std::string& what) const;
  testing::AssertionResult join_node();

  TempDir dir_;
  std::string record_;
  std::string client_key_;
  std::unique_ptr<Running> node_;

 public:
  Machine first;
  Machine second;
};

}  // namespace holdfast::process
