// Goal: a worker that is killed while it loads costs a try and time: what waits is served as long
// as a try is left, and ends with a typed failure when none is, never in an endless loop. Method: a
// fake engine that takes its time to load; SIGKILL in the middle of so many loads in a row.

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/process/house.h"

namespace holdfast::process::loading_test {
namespace {

using nlohmann::json;

constexpr int kTries = 5;  // models.load_tries

/// A house whose worker is killed `kills` times: at first while it serves, then while it loads.
struct Killing {
  std::string failure = "not heard";
  std::string state;  // in which the request ended
  std::vector<wire::TokenId> ids, expected;
  int while_loading = 0;
};

Killing kill_while_loading(int kills) {
  Killing result;
  const TempDir dir;
  House house(dir.path() + "/state");
  EXPECT_TRUE(
      house.start({"--model", "demo=" + demo_model(), "--engine", "fake", "--engine-options",
                   R"({"load_ms": 400, "step_us": 2000})", "--restart-max-ms", "20"}))
      << house.errors();
  EXPECT_EQ(house.cli({"config", "set", "models.load_backoff_ms=20"}).code, 0);
  const auto client = house.client();
  const auto watcher = house.operator_client();
  const Heard expected = hear(*client, make_submit("Once more", 60, 7));
  EXPECT_EQ(expected.failure, "");
  result.expected = expected.ids;
  auto heard = std::async(std::launch::async,
                          [&] { return hear(*client, make_submit("Once more", 60, 7)); });
  const auto state = [&] {
    const auto answer =
        watcher->op(client::AllTenants::local(), "models.show", R"({"name": "demo"})");
    const auto* text = std::get_if<std::string>(&answer);
    return text != nullptr ? json::parse(*text).value("state", "") : "";
  };
  // The models of the worker process with this pid, as the daemon knows them.
  const auto loads_of_worker = [&](pid_t pid) {
    const auto answer = watcher->op(client::AllTenants::local(), "workers.list", "{}");
    const auto* text = std::get_if<std::string>(&answer);
    json models = json::array();
    if (text == nullptr) return models;
    const json document = json::parse(*text);
    for (const json& worker : document["workers"]) {
      if (worker["pid"] == pid) models = worker["models"];
    }
    return models;
  };
  for (int i = 0; i < kills; ++i) {
    const pid_t killed = house.pid_of("worker-0");
    EXPECT_TRUE(house.kill_child("worker-0"));
    if (i + 1 == kills) break;
    std::string now;
    for (int tries = 0; tries < 2'000; ++tries) {
      now = state();
      if (now == "failed") break;
      // The daemon may not have heard of the last kill yet.
      const pid_t pid = house.pid_of("worker-0");
      if (now == "loading" && pid != killed && !loads_of_worker(pid).empty()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    result.while_loading += now == "loading" ? 1 : 0;
  }
  const Heard after = heard.get();
  result.failure = after.failure;
  result.state = wire::state_name(after.info.state);
  // An accepted request ends with the error of its choice.
  for (const wire::ChoiceInfo& choice : after.info.choices) {
    if (!choice.error_code.empty()) result.failure = choice.error_code + ": " + choice.error;
  }
  result.ids = after.ids;
  EXPECT_EQ(house.stop(), 0);
  return result;
}

TEST(Loading, AWorkerKilledWhileItLoads_WithATryLeft_CostsTimeAlone) {
  const Killing killing = kill_while_loading(kTries);
  EXPECT_EQ(killing.while_loading, kTries - 1);
  EXPECT_EQ(killing.failure, "");
  EXPECT_EQ(killing.ids, killing.expected);
}

TEST(Loading, AWorkerKilledWhileItLoads_EachTime_EndsInATypedFailure) {
  const Killing killing = kill_while_loading(kTries + 1);
  EXPECT_EQ(killing.while_loading, kTries);
  EXPECT_NE(killing.failure.find("model_failed"), std::string::npos)
      << killing.state << " " << killing.failure << " " << killing.ids.size();
  EXPECT_NE(killing.failure.find("worker lost while loading"), std::string::npos)
      << killing.failure;
}

}  // namespace
}  // namespace holdfast::process::loading_test
