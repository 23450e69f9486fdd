#include "tests/process/machine_pair.h"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <tuple>

#include "shared/client/peer_key.h"
#include "tests/process/etcd_server.h"

namespace holdfast::process {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr const char* kSlowFake = R"({"step_us": 4000})";

bool made(const Ended& ended) {
  if (ended.code != 0) std::fprintf(stderr, "%s\n", ended.err.c_str());
  return ended.code == 0;
}

}  // namespace

Machine::Machine(const std::string& dir, const std::string& name, bool cable)
    : url_("tcp://" + free_address()),
      key_(dir + "/" + name + ".key"),
      cable_(cable ? std::make_unique<CutRelay>(url_) : nullptr),
      files_(dir + "/" + name) {}

void Machine::start(const std::vector<std::string>& more) {
  std::vector<std::string> args = {
      "holdfast", "--state",  files_.state(), "serve",         "--http", "none",        "--workers",
      "0",        "--listen", url_,           "--standby-key", key_,     "--advertise", pair_url()};
  args.insert(args.end(), more.begin(), more.end());
  process_ = std::make_unique<Running>(args, files_.state() + ".out");
}

void Machine::lose() {
  const pid_t daemon = files_.pid_of("daemon");
  process_->end(SIGKILL);
  if (daemon > 0) kill(daemon, SIGKILL);
}

json Machine::ask(std::vector<std::string> args) const {
  args.insert(args.begin(), "--json");
  return json::parse(cli(args).out, nullptr, false);
}

std::string Machine::status(const char* member) const {
  const json now = ask({"ha", "status"});
  return now.is_object() ? now.value(member, "") : std::string();
}

bool Machine::reaches(const char* member, const std::string& value, int patience_ms) const {
  const auto until = SteadyClock::now() + milliseconds(patience_ms);
  while (SteadyClock::now() < until) {
    if (status(member) == value) return true;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return false;
}

std::string Machine::story() const {
  return ask({"ha", "status"}).dump() + "\n" + process_->output() +
         read_file(files_.state() + "/logs/daemon.log");
}

MachinePair::MachinePair(bool cables)
    : client_key_(dir_.path() + "/me.key"),
      first(dir_.path(), "one", cables),
      second(dir_.path(), "two", cables) {}

testing::AssertionResult MachinePair::start(const std::string& record) {
  record_ = record;
  first.start(flags_of(""));
  if (!first.says("elsewhere: ")) return wrong("the first machine does not start");
  for (const auto& [name, file, role] :
       {std::tuple("one", first.key(), "standby"), std::tuple("two", second.key(), "standby"),
        std::tuple("me", client_key_, "client")}) {
    if (!made(first.cli({"keys", "client", "create", name, "--role", role, "--out", file}))) {
      return wrong("no key");
    }
  }
  second.start(flags_of(first.pair_url()));
  if (!first.reaches("state", "in_step")) return wrong("the standby is not in step");
  return join_node();
}

std::vector<std::string> MachinePair::flags_of(const std::string& primary) const {
  if (!record_.empty()) return {"--record", record_};
  return primary.empty() ? std::vector<std::string>{}
                         : std::vector<std::string>{"--standby-of", primary};
}

testing::AssertionResult MachinePair::serve_model() {
  if (!made(first.cli({"models", "add", "m", demo_model(), "--options", kSlowFake})) ||
      !made(first.cli({"models", "load", "m"}))) {
    return wrong("no model");
  }
  const auto until = SteadyClock::now() + milliseconds(20'000);
  while (SteadyClock::now() < until) {
    if (first.ask({"models", "show", "m"}).value("state", "") == "ready") {
      return testing::AssertionSuccess();
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
  return wrong("the model is not ready");
}

std::unique_ptr<client::Client> MachinePair::client() const {
  client::Options options = client::options_with_key(client::read_key_file(client_key_).value());
  options.timeout = std::chrono::seconds(30);
  return client::Client::connect(first.url() + "," + second.url(), options).value();
}

std::string MachinePair::story() const {
  return "first: " + first.story() + "\nsecond: " + second.story() +
         "\nnode: " + (node_ ? node_->output() : "");
}

testing::AssertionResult MachinePair::wrong(const std::string& what) const {
  return testing::AssertionFailure() << what << "\n" << story();
}

testing::AssertionResult MachinePair::join_node() {
  const std::string key = dir_.path() + "/node.key";
  if (!made(first.cli({"keys", "node", "create", "n", "--out", key}))) return wrong("no key");
  const std::vector<std::string> args = {"holdfast", "--state",   dir_.path() + "/node",
                                         "node",     "--join",    first.url() + "," + second.url(),
                                         "--key",    key,         "--engine",
                                         "fake",     "--threads", "1"};
  node_ = std::make_unique<Running>(args, dir_.path() + "/node.out");
  if (node_->says("joined n")) return testing::AssertionSuccess();
  return wrong("the node does not join");
}

}  // namespace holdfast::process
