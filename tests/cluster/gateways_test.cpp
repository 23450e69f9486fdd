// Goal: clients of an HTTP gateway on a machine of its own get the text of an undisturbed run, each
// token once, whatever happens to the daemon, to the link between the two and to the gateway's
// machine. Method: `holdfast serve` in one network namespace, `holdfast gateway` in two others,
// curl in the hub, wires that lose packets; the daemon killed, the link cut, power taken away in
// the middle of streamed chats.
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "shared/base/supervisor_note.h"
#include "tests/cluster/server_machine.h"

namespace holdfast::cluster::gateways_test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr int kFirstGateway = 1;
constexpr int kGateways = 2;
constexpr int kTokens = 400;
constexpr std::size_t kMiddle = 60;  // events after which something happens

/// The events of a streamed chat, as far as they came.
struct Received {
  std::string text, last_id;
  std::size_t events = 0;
  bool done = false;
};

void add_events(const std::string& answer, Received& received) {
  std::istringstream lines(answer);
  std::string id;
  // A line that was cut off is no event.
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.starts_with("id: ")) id = line.substr(4);
    if (line == "data: [DONE]") received.done = true;
    if (!line.starts_with("data: {")) continue;
    const json event = json::parse(line.substr(6), nullptr, false);
    if (!event.is_object() || !event.contains("choices")) continue;
    ++received.events;
    received.last_id = id;
    for (const json& choice : event["choices"]) {
      const json& delta = choice["delta"];
      if (delta.contains("content") && delta["content"].is_string()) {
        received.text += delta["content"].get<std::string>();
      }
    }
  }
}

/// A server without HTTP and two gateways, each on a machine of its own.
class Cluster {
 public:
  explicit Cluster(Machines& machines) : machines_(machines), server_(machines) {}

  void start() {
    const std::string model = HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf";
    ASSERT_NO_FATAL_FAILURE(
        server_.start({"--engine", "fake", "--threads", "1", "--model", "demo=" + model,
                       "--engine-options", R"({"step_us": 4000})"}));
    const auto made = server_.cli({"--json", "keys", "create", "client"});
    ASSERT_EQ(made.first, 0) << made.second;
    api_key_ = json::parse(made.second)["key"];
    for (int i = 0; i < kGateways; ++i) {
      const auto key = server_.cli({"keys", "gateway", "create", name_of(i), "--out", key_of(i)});
      ASSERT_EQ(key.first, 0) << key.second;
      gateways_.at(i) = machines_.start(
          kFirstGateway + i,
          {"holdfast", "gateway", "--state", machines_.dir() + "/" + name_of(i), "--join",
           ServerMachine::listener(), "--key", key_of(i), "--http", address_of(i)});
      ASSERT_TRUE(gateways_.at(i)->says("ready http://" + address_of(i), kPatienceS))
          << gateways_.at(i)->errors();
      ASSERT_TRUE(machines_.set_wire(kFirstGateway + i, "loss 10").has_value());
    }
  }
  /// Starts a chat in the hub, at one of the gateways; after an event, if one is named.
  std::unique_ptr<Program> chat(int gateway, const std::string& key,
                                const std::string& last_id = {}) {
    const json body = {{"model", "demo"},
                       {"max_tokens", kTokens},
                       {"temperature", 1},
                       {"seed", 5},
                       {"ignore_eos", true},
                       {"stream", true},
                       {"messages", {{{"role", "user"}, {"content", "To be"}}}}};
    std::vector<std::string> args = {"/usr/bin/curl",
                                     "-sS",
                                     "-N",
                                     "--fail-with-body",
                                     "--max-time",
                                     "100",
                                     "-H",
                                     "Authorization: Bearer " + api_key_,
                                     "-H",
                                     "Content-Type: application/json",
                                     "-H",
                                     "Idempotency-Key: " + key,
                                     "-d",
                                     body.dump(),
                                     "http://" + address_of(gateway) + "/v1/chat/completions"};
    if (!last_id.empty()) args.insert(args.end(), {"-H", "Last-Event-ID: " + last_id});
    return machines_.start(kHub, args);
  }
  /// The text of an undisturbed chat.
  std::string calm_text() {
    const auto curl = chat(0, "calm");
    EXPECT_EQ(curl->wait(kPatienceS), 0) << curl->errors() << curl->output();
    Received received;
    add_events(curl->output(), received);
    EXPECT_TRUE(received.done);
    return received.text;
  }
  bool kill_daemon() const {
    for (const SupervisedChild& child : read_supervisor_note(server_.state() + "/run").children) {
      if (child.name == "daemon" && child.pid > 0) {
        return kill(static_cast<pid_t>(child.pid), SIGKILL) == 0;
      }
    }
    return false;
  }
  Program& gateway(int i) { return *gateways_.at(i); }
  void stop() { server_.stop(); }
  std::string errors() const { return server_.errors(); }

 private:
  static std::string name_of(int i) { return "g" + std::to_string(i); }
  static std::string address_of(int i) { return Machines::address(kFirstGateway + i) + ":8080"; }
  std::string key_of(int i) const { return machines_.dir() + "/" + name_of(i) + ".key"; }

  Machines& machines_;
  ServerMachine server_;
  std::string api_key_;
  std::array<std::unique_ptr<Program>, kGateways> gateways_;
};

/// Waits until a chat has come to an event.
bool reaches(const Program& curl, std::size_t events) {
  for (int i = 0; i < 3'000; ++i) {
    Received received;
    add_events(curl.output(), received);
    if (received.events >= events) return true;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return false;
}

TEST(Gateways, Chat_WhileTheDaemonDiesAndTheLinkIsCut_GoesOnOverItsConnection) {
  HOLDFAST_MAKE_MACHINES(machines, 1 + kGateways, 11);
  Cluster cluster(*machines);
  ASSERT_NO_FATAL_FAILURE(cluster.start());
  const std::string calm = cluster.calm_text();
  ASSERT_GT(calm.size(), 400u);
  const auto curl = cluster.chat(0, "wild");
  ASSERT_TRUE(reaches(*curl, kMiddle)) << curl->errors();
  ASSERT_TRUE(cluster.kill_daemon());
  ASSERT_TRUE(reaches(*curl, 2 * kMiddle)) << curl->errors();
  // Between gateway and daemon alone: the client stays connected.
  ASSERT_TRUE(machines->set_wire(kFirstGateway, "block " + Machines::address(kServer)).has_value());
  std::this_thread::sleep_for(milliseconds(4'000));
  Received held;
  add_events(curl->output(), held);
  EXPECT_FALSE(held.done) << "nothing came through the cut link";
  ASSERT_TRUE(machines->set_wire(kFirstGateway, "heal").has_value());
  EXPECT_EQ(curl->wait(kPatienceS), 0) << curl->errors();
  Received received;
  add_events(curl->output(), received);
  EXPECT_TRUE(received.done);
  EXPECT_EQ(received.text, calm);
  EXPECT_GT(received.events, held.events);
  EXPECT_FALSE(cluster.gateway(0).has_ended()) << cluster.gateway(0).errors();
  cluster.stop();
}

TEST(Gateways, Chat_WhoseGatewayLosesPower_GoesOnAtAnotherOne) {
  HOLDFAST_MAKE_MACHINES(machines, 1 + kGateways, 12);
  Cluster cluster(*machines);
  ASSERT_NO_FATAL_FAILURE(cluster.start());
  const std::string calm = cluster.calm_text();
  const auto first = cluster.chat(0, "wild");
  ASSERT_TRUE(reaches(*first, kMiddle)) << first->errors();
  machines->power_off(kFirstGateway);
  first->end(SIGKILL, kPatienceS);
  Received received;
  add_events(first->output(), received);
  ASSERT_FALSE(received.done);
  ASSERT_FALSE(received.last_id.empty());
  const std::size_t before = received.events;
  const auto second = cluster.chat(1, "wild", received.last_id);
  EXPECT_EQ(second->wait(kPatienceS), 0) << second->errors() << second->output();
  add_events(second->output(), received);
  EXPECT_TRUE(received.done);
  EXPECT_EQ(received.text, calm);
  std::printf("%zu events at the first gateway, %zu at the second\n", before,
              received.events - before);
  EXPECT_GT(received.events, before);
  cluster.stop();
}

}  // namespace
}  // namespace holdfast::cluster::gateways_test
