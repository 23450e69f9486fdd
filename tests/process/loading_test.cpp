// Goal: a worker that is killed while it loads costs an attempt and time: waiting requests are
// served as long as an attempt is left, and end with a typed failure when none is, never in an
// endless loop. Method: a fake engine with a slow load; SIGKILL in the middle of a number of loads
// in a row.

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/process/test_server.h"

namespace holdfast::process::loading_test {
namespace {

using nlohmann::json;

constexpr int kTries = 5;  // models.load_tries

/// A server whose worker is killed `kills` times: first while it serves, then while it loads.
struct Killing {
  std::string failure = "not heard";
  std::string state;  // the request's final state
  std::vector<wire::TokenId> ids, expected;
  int while_loading = 0;
};

Killing kill_while_loading(int kills) {
  Killing result;
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  EXPECT_TRUE(
      server.start({"--model", "demo=" + demo_model(), "--engine", "fake", "--engine-options",
                    R"({"load_ms": 400, "step_us": 2000})", "--restart-max-ms", "20"}))
      << server.errors();
  EXPECT_EQ(server.cli({"config", "set", "models.load_backoff_ms=20"}).code, 0);
  const auto client = server.client();
  const auto watcher = server.operator_client();
  const StreamResult expected = submit_and_stream(*client, make_submit("Once more", 60, 7));
  EXPECT_EQ(expected.failure, "");
  result.expected = expected.ids;
  auto streamed = std::async(std::launch::async, [&] {
    return submit_and_stream(*client, make_submit("Once more", 60, 7));
  });
  const auto state = [&] {
    const auto answer =
        watcher->op(client::AllTenants::local(), "models.show", R"({"name": "demo"})");
    const auto* text = std::get_if<std::string>(&answer);
    return text != nullptr ? json::parse(*text).value("state", "") : "";
  };
  // The loads of the worker process with this pid, by the daemon.
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
    const pid_t killed = server.pid_of("worker-0");
    EXPECT_TRUE(server.kill_child("worker-0"));
    if (i + 1 == kills) break;
    std::string now;
    for (int tries = 0; tries < 2'000; ++tries) {
      now = state();
      if (now == "failed") break;
      // The daemon may not have noticed the last kill yet.
      const pid_t pid = server.pid_of("worker-0");
      if (now == "loading" && pid != killed && !loads_of_worker(pid).empty()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    result.while_loading += now == "loading" ? 1 : 0;
  }
  const StreamResult after = streamed.get();
  result.failure = after.failure;
  result.state = wire::state_name(after.info.state);
  // An accepted request ends with the error of its choice.
  for (const wire::ChoiceInfo& choice : after.info.choices) {
    if (!choice.error_code.empty()) result.failure = choice.error_code + ": " + choice.error;
  }
  result.ids = after.ids;
  EXPECT_EQ(server.stop(), 0);
  return result;
}

TEST(Loading, ModelLoad_WhenTheWorkerIsKilledWithATryLeft_SucceedsLater) {
  const Killing killing = kill_while_loading(kTries);
  EXPECT_EQ(killing.while_loading, kTries - 1);
  EXPECT_EQ(killing.failure, "");
  EXPECT_EQ(killing.ids, killing.expected);
}

TEST(Loading, ModelLoad_WhenTheWorkerIsKilledOnEachTry_EndsInATypedFailure) {
  const Killing killing = kill_while_loading(kTries + 1);
  EXPECT_EQ(killing.while_loading, kTries);
  EXPECT_NE(killing.failure.find("model_failed"), std::string::npos)
      << killing.state << " " << killing.failure << " " << killing.ids.size();
  EXPECT_NE(killing.failure.find("worker lost while loading"), std::string::npos)
      << killing.failure;
}

}  // namespace
}  // namespace holdfast::process::loading_test
