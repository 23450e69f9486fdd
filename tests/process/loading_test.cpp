// Goal: a worker that is killed while it loads costs time and nothing else: kills from outside
// never count against a model, so what waits for it is served in the end. Method: a fake engine
// that takes its time to load; SIGKILL in the middle of more loads in a row than a broken model
// would be tried.

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/process/house.h"

namespace holdfast::process {
namespace {

using nlohmann::json;

constexpr int kKills = 8;  // models.load_tries is 5

TEST(Loading, KillsFromOutsideNeverCountAgainstAModel) {
  const TempDir dir;
  House house(dir.path() + "/state");
  ASSERT_TRUE(
      house.start({"--model", "demo=" + demo_model(), "--engine", "fake", "--engine-options",
                   R"({"load_ms": 400, "step_us": 2000})", "--restart-max-ms", "20"}))
      << house.errors();
  const auto client = house.client();
  const auto watcher = house.operator_client();
  const Heard expected = hear(*client, make_submit("Once more", 60, 7));
  ASSERT_EQ(expected.failure, "");
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
  int while_loading = 0;
  for (int i = 0; i < kKills; ++i) {
    ASSERT_TRUE(house.kill_child("worker-0"));
    std::string now;
    for (int tries = 0; tries < 2'000; ++tries) {
      now = state();
      ASSERT_NE(now, "failed") << "after " << i << " kills " << house.errors();
      if (now == "loading" && !loads_of_worker(house.pid_of("worker-0")).empty()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    while_loading += now == "loading" ? 1 : 0;
  }
  EXPECT_EQ(while_loading, kKills);
  const Heard after = heard.get();
  EXPECT_EQ(after.failure, "") << house.errors();
  EXPECT_EQ(after.info.state, wire::RequestState::kSucceeded);
  EXPECT_EQ(after.ids, expected.ids);
  EXPECT_EQ(house.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process
