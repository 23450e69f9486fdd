#include "tests/cluster/server_machine.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <iterator>

namespace holdfast::cluster {

void ServerMachine::start(const std::vector<std::string>& flags) {
  const std::string http =
      http_ == ServerHttp::kNone ? "none" : url().substr(std::string("http://").size());
  std::vector<std::string> args = {"serve", "--http", http, "--listen", listener()};
  args.insert(args.end(), flags.begin(), flags.end());
  program_ = begin(std::move(args));
  ASSERT_TRUE(program_->says("ready ", kPatienceS)) << program_->errors();
}

std::unique_ptr<Program> ServerMachine::begin(std::vector<std::string> args) {
  args.insert(args.begin(), {"holdfast", "--state", state()});
  return machines_.start(kServer, args);
}

std::pair<int, std::string> ServerMachine::cli(std::vector<std::string> args) {
  const auto program = begin(std::move(args));
  const int code = program->wait(kPatienceS);
  return {code, code == 0 ? program->output() : program->errors()};
}

void ServerMachine::stop() {
  EXPECT_EQ(program_->end(SIGTERM, kPatienceS), 0) << program_->errors();
}

std::string ServerMachine::daemon_log() const {
  std::ifstream file(state() + "/logs/daemon.log");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace holdfast::cluster
