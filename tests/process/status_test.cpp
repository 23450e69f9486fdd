// Goal: one look at status tells which processes are alive, what is loaded where, what waits, how
// long things take, what was refused and why, what bounds it, and what is wrong with what to do
// about it; and watching goes on while the daemon is away. Method: real processes with the fake
// engine; faults are made one by one and must be named.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "shared/base/version.h"
#include "tests/process/running.h"
#include "tests/process/test_server.h"

namespace holdfast::process::status_test {
namespace {

using nlohmann::json;

std::vector<std::string> fake_serve() {
  return {"--model", "demo=" + demo_model(), "--engine",
          "fake",    "--engine-options",     R"({"step_us": 2000})"};
}

json status_of(const TestServer& server) {
  const Ended ended = server.cli({"--json", "status"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  return json::parse(ended.out, nullptr, false);
}

/// The problem whose subject and text have these words; null if there is none.
json problem(const json& status, const std::string& words) {
  for (const json& p : status.at("problems")) {
    const std::string all =
        p.at("subject").get<std::string>() + ": " + p.at("what").get<std::string>();
    if (all.find(words) != std::string::npos) return p;
  }
  return nullptr;
}

TEST(Status, Status_AfterSomeRequests_FitsOneScreen) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start(fake_serve())) << server.errors();
  EXPECT_TRUE(status_of(server).at("problems").empty()) << status_of(server).at("problems");
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(server.cli({"run", "demo", "hi", "--max-tokens", "8"}).code, 0);
  }
  ASSERT_EQ(server.cli({"run", "nobody", "hi"}).code, 3);
  ASSERT_EQ(server.cli({"run", "demo", "hi", "--max-tokens", "100000000"}).code, 4);
  const json status = status_of(server);
  EXPECT_EQ(status["daemon"]["version"], kVersion);
  EXPECT_EQ(status["refusals"]["model_not_found"], 1);
  EXPECT_EQ(status["refusals"]["context_exceeded"], 1);
  const json& latency = status["latency"];
  EXPECT_EQ(latency["queue_wait"]["count"], 3);
  EXPECT_EQ(latency["first_token"]["count"], 3);
  EXPECT_GE(latency["token_gap"]["count"], 12);
  EXPECT_EQ(latency["end_to_end"]["count"], 3);
  EXPECT_GE(latency["end_to_end"]["p50_ms"].get<double>(),
            latency["first_token"]["p50_ms"].get<double>());
  EXPECT_GT(latency["commit"]["count"], 5);
  EXPECT_GT(status["rates"]["tokens_per_s"].get<double>(), 0);
  ASSERT_EQ(status["workers"].size(), 1u);
  EXPECT_EQ(status["workers"][0]["restarts"], 0);
  EXPECT_GT(status["workers"][0]["slots"], 0);
  ASSERT_EQ(status["devices"].size(), 1u);
  EXPECT_GT(status["devices"][0]["reserved_bytes"], 0);
  EXPECT_EQ(status["devices"][0]["reserved_bytes"].get<double>(),
            status["models"][0]["loads"][0]["reserved_bytes"].get<double>());
  EXPECT_EQ(status["limits"][0]["name"], "queue.max_requests");
  EXPECT_EQ(status["limits"][0]["limit"], 100'000);

  const std::string screen = server.cli({"status"}).out;
  EXPECT_NE(screen.find(std::string("holdfast ") + kVersion + "  up "), std::string::npos)
      << screen;
  for (const char* part : {"no problems", "WORKERS", "worker-0", "MODELS", "demo", "MEMORY",
                           "QUEUE", "waiting 0  running 0", "time to first token",
                           "model_not_found 1", "queue.max_requests", "100000"}) {
    EXPECT_NE(screen.find(part), std::string::npos) << part << "\n" << screen;
  }
  EXPECT_LE(std::count(screen.begin(), screen.end(), '\n'), 50) << screen;
  EXPECT_EQ(server.stop(), 0);
}

TEST(Status, QueueStatus_WhenRequestsWait_ListsThemByModelTenantAndPriority) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start(fake_serve())) << server.errors();
  ASSERT_EQ(server.cli({"queue", "pause"}).code, 0);
  const auto client = server.client();
  for (int i = 0; i < 3; ++i) {
    wire::Submit submit = make_submit("one two", 5, 1);
    submit.tenant = i == 0 ? "alice" : "bob";
    submit.priority = i == 0 ? wire::PriorityClass::kInteractive : wire::PriorityClass::kBatch;
    const auto answer = client->submit(client::Principal::local(submit.tenant), submit);
    ASSERT_TRUE(std::holds_alternative<wire::Accepted>(answer));
  }
  const json status = status_of(server);
  const json paused = problem(status, "queue: paused");
  ASSERT_FALSE(paused.is_null()) << status["problems"];
  EXPECT_EQ(paused["hint"], "`holdfast queue resume`");
  ASSERT_EQ(status["queue"]["lines"].size(), 2u) << status["queue"];
  const json& alice = status["queue"]["lines"][0];
  EXPECT_EQ(alice["tenant"], "alice");
  EXPECT_EQ(alice["priority"], "interactive");
  EXPECT_EQ(alice["waiting"], 1);
  EXPECT_EQ(status["queue"]["lines"][1]["waiting"], 2);
  EXPECT_NE(server.cli({"status"}).out.find("PAUSED"), std::string::npos);
  ASSERT_EQ(server.cli({"queue", "resume"}).code, 0);
  EXPECT_TRUE(problem(status_of(server), "queue").is_null());
  EXPECT_EQ(server.stop(), 0);
}

TEST(Status, Status_WithAProblem_NamesItWithAHint) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start(fake_serve())) << server.errors();
  const auto expect = [&](const std::string& words, const std::string& hint) {
    const json status = status_of(server);
    const json found = problem(status, words);
    ASSERT_FALSE(found.is_null()) << words << "\n" << status["problems"];
    EXPECT_NE(found["hint"].get<std::string>().find(hint), std::string::npos) << found;
  };
  const std::string keys = server.state() + "/keys";
  std::filesystem::create_directories(keys);
  chmod(keys.c_str(), 0755);
  std::ofstream(keys + "/tenant.key") << "secret";
  chmod((keys + "/tenant.key").c_str(), 0644);
  expect("tenant.key can be read or written by others", "chmod 600");
  expect("keys can be entered by others", "chmod 700");
  ASSERT_EQ(server.cli({"config", "set", "link.high_water=99"}).code, 0);
  expect("waits for a restart of the daemon: link.high_water", "restart");
  ASSERT_EQ(server.cli({"workers", "drain", "worker-0"}).code, 0);
  expect("worker worker-0: draining", "workers resume worker-0");
  ASSERT_EQ(server.cli({"workers", "resume", "worker-0"}).code, 0);
  // The disk is not filled: the bound is set above the free space.
  ASSERT_EQ(server.cli({"config", "set", "storage.min_free_bytes=1099511627776"}).code, 0);
  // The daemon checks once a second.
  const auto wait_for_disk = [&](bool low) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (problem(status_of(server), "refused below").is_null() == low &&
           std::chrono::steady_clock::now() < until) {
    }
  };
  wait_for_disk(true);
  expect("disk: ", "free some space");
  ASSERT_EQ(server.cli({"config", "unset", "storage.min_free_bytes"}).code, 0);
  wait_for_disk(false);
  ASSERT_EQ(server.cli({"config", "set", "queue.max_requests=1"}).code, 0);
  ASSERT_EQ(server.cli({"queue", "pause"}).code, 0);
  const auto client = server.client();
  ASSERT_TRUE(std::holds_alternative<wire::Accepted>(
      client->submit(client::Principal::local(), make_submit("a", 2, 1))));
  expect("queue: 1 of at most 1 requests", "queue.max_requests");
  // Errors come before warnings, and people see both.
  EXPECT_EQ(status_of(server)["problems"][0]["level"], "error");
  const std::string screen = server.cli({"status"}).out;
  EXPECT_NE(screen.find("→ chmod 600"), std::string::npos) << screen;
  EXPECT_EQ(server.stop(), 0);
}

TEST(Status, Status_WhenAModelFailed_ReportsTheReason) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  std::filesystem::copy_file(demo_model(), dir.path() + "/m.gguf");
  ASSERT_TRUE(server.start({"--config", "models.load_tries=1"})) << server.errors();
  ASSERT_EQ(server.cli({"models", "add", "m", dir.path() + "/m.gguf"}).code, 0);
  std::filesystem::remove(dir.path() + "/m.gguf");
  EXPECT_NE(server.cli({"models", "load", "m"}).code, 0);
  const json status = status_of(server);
  const json found = problem(status, "model m: failed: ");
  ASSERT_FALSE(found.is_null()) << status["problems"];
  EXPECT_NE(found["hint"].get<std::string>().find("models load m"), std::string::npos);
  EXPECT_EQ(server.stop(), 0);
}

TEST(Status, StatusWatch_WhileTheDaemonIsAway_GoesOn) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start(fake_serve())) << server.errors();
  Running watch({"holdfast", "--state", server.state(), "status", "--watch", "0.2"},
                dir.path() + "/watch");
  ASSERT_TRUE(watch.says("\n----\n")) << watch.output();
  EXPECT_EQ(watch.output().find('\033'), std::string::npos) << "no control codes in a file";
  EXPECT_EQ(server.stop(), 0);
  ASSERT_TRUE(watch.says("unreachable: ")) << watch.output();
  ASSERT_TRUE(server.start(fake_serve())) << server.errors();
  const std::string epoch =
      "epoch " + std::to_string(status_of(server)["daemon"]["epoch"].get<int>());
  EXPECT_TRUE(watch.says(epoch)) << watch.output();
  EXPECT_EQ(watch.end(SIGINT), 0);

  Running json_watch({"holdfast", "--json", "--state", server.state(), "status", "--watch"},
                     dir.path() + "/json");
  ASSERT_TRUE(json_watch.says("}\n{")) << json_watch.output();
  EXPECT_EQ(json_watch.end(SIGTERM), 0);
  const std::string lines = json_watch.output();
  EXPECT_TRUE(json::parse(lines.substr(0, lines.find('\n')), nullptr, false).is_object());

  Running on_terminal({"holdfast", "--state", server.state(), "status", "--watch", "0.2"},
                      dir.path() + "/terminal", true);
  EXPECT_TRUE(on_terminal.says("\033[H\033[J")) << on_terminal.output();
  EXPECT_TRUE(on_terminal.says("WORKERS"));
  EXPECT_EQ(on_terminal.end(SIGINT), 0);
  EXPECT_EQ(on_terminal.output().find("\n----"), std::string::npos);
  EXPECT_EQ(server.cli({"status", "--watch", "0"}).code, 2);
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::status_test
