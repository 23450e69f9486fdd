// Goal: settings from file, environment, command line and operators form one chain that survives
// restarts, and each value can be explained; a bad setting stops the start and is located. Method:
// real processes; the CLI reads and changes, with and without a daemon.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/process/test_server.h"

namespace holdfast::process::config_test {
namespace {

using nlohmann::json;

const std::vector<std::string> kServe = {"--model", "demo=" + demo_model()};

json ask(const TestServer& server, std::vector<std::string> args) {
  args.insert(args.begin(), "--json");
  const Ended ended = server.cli(args);
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  return json::parse(ended.out, nullptr, false);
}

std::vector<std::string> with(std::vector<std::string> flags,
                              const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

TEST(ConfigProcess, Settings_FromSeveralSources_AreExplainedAndSurviveRestarts) {
  const TempDir dir;
  const std::string file =
      dir.write("hf.conf", "# limits\nqueue.max_requests = 500\nqueue.max_preparing = 50\n");
  setenv("HOLDFAST_REQUEST_MAX_PROMPTS", "9", 1);
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(
      server.start(with(kServe, {"--config-file", file, "--config", "request.max_choices=33"})))
      << server.errors();
  json explained = ask(server, {"config", "explain", "queue.max_requests"});
  EXPECT_EQ(explained["effective"], 500);
  EXPECT_EQ(explained["source"], "file");
  EXPECT_EQ(explained["who"], file);
  EXPECT_EQ(ask(server, {"config", "get", "request.max_prompts"})["source"], "environment");
  EXPECT_EQ(ask(server, {"config", "get", "request.max_choices"})["source"], "command line");

  const json changed =
      ask(server, {"config", "set", "queue.max_requests=600", "link.high_water=99"});
  EXPECT_EQ(changed["restart_pending"], json::array({"link.high_water"}));
  EXPECT_EQ(ask(server, {"config", "get", "queue.max_requests"})["effective"], 600);
  EXPECT_EQ(ask(server, {"queue", "stats"})["max_requests"], 600);
  EXPECT_EQ(server.cli({"config", "set", "queue.max_requests=0"}).code, 4);
  EXPECT_EQ(server.cli({"config", "set", "nonsense=1"}).code, 4);
  ASSERT_EQ(server.stop(), 0) << server.errors();

  const std::int64_t version = ask(server, {"config", "history"})["version"];
  EXPECT_EQ(ask(server, {"config", "set", "queue.max_preparing=51"})["version"], version + 1);
  setenv("HOLDFAST_REQUEST_MAX_PROMPTS", "10", 1);
  ASSERT_TRUE(
      server.start(with(kServe, {"--config-file", file, "--config", "request.max_choices=33"})))
      << server.errors();
  EXPECT_EQ(ask(server, {"config", "get", "queue.max_requests"})["effective"], 600);
  EXPECT_EQ(ask(server, {"config", "get", "queue.max_preparing"})["effective"], 51);
  EXPECT_EQ(ask(server, {"config", "get", "link.high_water"})["effective"], 99);
  explained = ask(server, {"config", "explain", "request.max_prompts"});
  EXPECT_EQ(explained["effective"], 10);
  EXPECT_EQ(explained["history"].size(), 2u) << explained;
  ask(server, {"config", "rollback", "0"});
  EXPECT_EQ(ask(server, {"config", "get", "queue.max_requests"})["effective"], 100'000);
  unsetenv("HOLDFAST_REQUEST_MAX_PROMPTS");
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

TEST(ConfigProcess, Serve_WhenASettingIsInvalid_EndsNamingItsSource) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  const std::string file =
      dir.write("hf.conf", "queue.max_requests = 500\nqueue.max_request = 1\n");
  EXPECT_FALSE(server.start(with(kServe, {"--config-file", file})));
  EXPECT_NE(server.errors().find("line 2"), std::string::npos) << server.errors();
  EXPECT_FALSE(server.start(with(kServe, {"--config", "queue.max_requests=-1"})));
  EXPECT_NE(server.errors().find("out of range"), std::string::npos) << server.errors();
  setenv("HOLDFAST_QUEUE_MAX_REQUEST", "1", 1);
  EXPECT_FALSE(server.start(kServe));
  unsetenv("HOLDFAST_QUEUE_MAX_REQUEST");
  EXPECT_NE(server.errors().find("HOLDFAST_QUEUE_MAX_REQUEST"), std::string::npos)
      << server.errors();
}

}  // namespace
}  // namespace holdfast::process::config_test
