// Goal: a server on one machine gives a client on another the text that it gives at home, over a
// network that delays and loses packets. Method: `holdfast serve` with the fake engine in one
// namespace, curl there and in the hub, through a wire with 2 % loss and 5 ms each way.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cluster/namespaces.h"
#include "tests/cluster/server_machine.h"
#include "tests/cluster/sockets.h"

namespace holdfast::cluster::serve_test {
namespace {

using nlohmann::json;

constexpr int kLostMin = 3;      // packets
constexpr int kAnswersMax = 50;  // until so many are lost

/// A server with the demo model, and curl with a key of it.
struct Served {
  explicit Served(Machines& all) : machines(all), server(all, ServerHttp::kListens) {}

  void start() {
    const std::string model = HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf";
    ASSERT_NO_FATAL_FAILURE(
        server.start({"--engine", "fake", "--threads", "1", "--model", "demo=" + model}));
    const auto [code, text] = server.cli({"--json", "keys", "create", "k"});
    ASSERT_EQ(code, 0) << text;
    key = json::parse(text)["key"];
  }

  /// Returns the output of curl in a machine for a completion; fails the test if curl fails.
  std::string complete(int machine, const json& body) const {
    const auto curl = machines.start(
        machine, {"/usr/bin/curl", "-sS", "-N", "--fail-with-body", "--max-time", "60", "-H",
                  "Authorization: Bearer " + key, "-H", "Content-Type: application/json", "-d",
                  body.dump(), ServerMachine::url() + "/v1/completions"});
    EXPECT_EQ(curl->wait(kPatienceS), 0) << curl->errors() << curl->output();
    return curl->output();
  }

  Machines& machines;
  ServerMachine server;
  std::string key;
};

/// The text of an answer that came at once.
std::string text_of(const std::string& answer) {
  return json::parse(answer).at("choices").at(0).at("text");
}

/// The text of an answer that came as events.
std::string streamed_text_of(const std::string& answer) {
  std::string text;
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: {")) continue;
    const json event = json::parse(line.substr(6));
    if (!event.at("choices").empty()) text += event["choices"][0].at("text").get<std::string>();
  }
  return text;
}

TEST(Serve, Answers_OverAWireThatLosesPackets_AreThoseOfTheServersOwnMachine) {
  HOLDFAST_MAKE_MACHINES(machines, 1, 3);
  Served served(*machines);
  ASSERT_NO_FATAL_FAILURE(served.start());
  json body = {{"model", "demo"}, {"prompt", "To be, or not"}, {"max_tokens", 300},
               {"seed", 11},      {"temperature", 1},          {"ignore_eos", true}};
  const std::string at_home = text_of(served.complete(kServer, body));
  EXPECT_GT(at_home.size(), 300u);
  ASSERT_TRUE(machines->set_wire(0, "loss 20").has_value());
  ASSERT_TRUE(machines->set_wire(0, "delay 5000").has_value());
  EXPECT_EQ(text_of(served.complete(kHub, body)), at_home);
  body["stream"] = true;
  std::int64_t lost = 0;
  for (int i = 0; i < kAnswersMax && lost < kLostMin; ++i) {
    const std::int64_t begin = monotonic_us();
    const std::string answer = served.complete(kHub, body);
    EXPECT_GE(monotonic_us() - begin, 20'000) << "two round trips at least";
    EXPECT_EQ(streamed_text_of(answer), at_home);
    EXPECT_NE(answer.find("data: [DONE]"), std::string::npos);
    const WireCounters counters = machines->counters(0).value();
    lost = counters.a.lost + counters.b.lost;
  }
  EXPECT_GE(lost, kLostMin);
  std::printf("through the wire: %s\n", counters_text(machines->counters(0).value()).c_str());
  served.server.stop();
}

}  // namespace
}  // namespace holdfast::cluster::serve_test
