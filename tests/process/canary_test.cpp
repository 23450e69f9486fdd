// Goal: a canary that fails or is slow is rolled back within two windows, and clients see no error
// beyond its share; an alias is swapped under load without a lost request; a canary outlives its
// daemon. Method: `holdfast serve` with fake engines, clients that ask for the alias all the time,
// and the rows of the decisions as the CLI shows them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/test_server.h"

namespace holdfast::process::canary_test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr const char* kStable = R"({"slots": 8, "step_us": 2000})";
/// Engine options that make every token 0, which is not a number; id 1 is the end token, which only
/// eos_every gives.
constexpr const char* kFails =
    R"({"slots": 8, "step_us": 2000, "vocab": 2, "eos": 1, "nan_on_token": 0})";
constexpr const char* kSlow = R"({"slots": 8, "step_us": 150000})";
constexpr std::int64_t kTokens = 6;

/// Clients that submit by the alias, stream to the end and begin again.
class Load {
 public:
  Load(const TestServer& server, int clients) {
    for (int i = 0; i < clients; ++i)
      threads_.emplace_back([this, &server, i] { work(server, i); });
  }
  ~Load() { stop(); }
  void stop() {
    stop_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  /// Ended requests; valid after stop().
  const std::vector<StreamResult>& results() const { return results_; }
  std::size_t ended() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return results_.size();
  }

 private:
  void work(const TestServer& server, int client_number) {
    const auto client = server.client();
    for (int i = 0; !stop_; ++i) {
      wire::Submit submit;
      submit.model = "chat";
      wire::Prompt prompt;
      prompt.ids = std::vector<wire::TokenId>{0};
      submit.prompts = {prompt};
      submit.max_tokens = kTokens;
      submit.seed_given = true;
      submit.sampling.seed = static_cast<std::uint64_t>(client_number * 100'000 + i);
      submit.sampling.ignore_eos = true;
      StreamResult one = submit_and_stream(*client, submit);
      const std::lock_guard<std::mutex> lock(mutex_);
      results_.push_back(std::move(one));
    }
  }
  std::mutex mutex_;
  std::vector<StreamResult> results_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false};
};

class CanaryServerTest : public testing::Test {
 protected:
  void start(const char* canary_options) {
    ASSERT_TRUE(
        server.start({"--model", "stable=" + demo_model(), "--engine", "fake", "--engine-options",
                      kStable, "--workers", "2", "--config", "models.replicas=1"}))
        << server.errors();
    ASSERT_NO_FATAL_FAILURE(
        done({"models", "add", "next", demo_model(), "--options", canary_options}));
    ASSERT_NO_FATAL_FAILURE(done({"models", "alias", "chat", "--to", "stable"}));
  }
  void done(const std::vector<std::string>& args) {
    const Ended ended = server.cli(args);
    ASSERT_EQ(ended.code, 0) << ended.out << ended.err << server.errors();
  }
  json ask(std::vector<std::string> args) {
    args.insert(args.begin(), "--json");
    const Ended ended = server.cli(args);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return json::parse(ended.out, nullptr, false);
  }
  json history() { return ask({"models", "alias", "chat", "--history"}); }
  bool has_canary() { return ask({"models", "show", "chat"}).contains("canary"); }
  /// Waits until the canary has ended, for a minute at most.
  void wait_for_end() {
    for (int i = 0; i < 300 && has_canary(); ++i) std::this_thread::sleep_for(milliseconds(200));
  }
  /// Loads a model on the worker that does not have the other one: models of one worker share its
  /// engine, and a slow one slows the other one down.
  void load_on_other_worker(const std::string& model, const std::string& from) {
    const std::string worker =
        ask({"models", "show", from}).at("loads").at(0).at("worker").get<std::string>();
    ASSERT_NO_FATAL_FAILURE(done({"workers", "drain", worker}));
    ASSERT_NO_FATAL_FAILURE(done({"models", "load", model}));
    ASSERT_NO_FATAL_FAILURE(done({"workers", "resume", worker}));
    ASSERT_NE(ask({"models", "show", model}).at("loads").at(0).at("worker"), worker);
  }

  const TempDir dir;
  TestServer server{dir.path() + "/state"};
};

/// Expects rows that tell what happened: at most two windows, the last one rolled back.
void expect_rolled_back(const json& history, const std::string& why) {
  const json& windows = history.at("windows");
  ASSERT_FALSE(windows.empty());
  EXPECT_LE(windows.size(), 2u) << windows.dump(1);
  EXPECT_EQ(windows[0].at("decision"), "roll back") << windows.dump(1);
  EXPECT_NE(windows[0].at("reason").get<std::string>().find(why), std::string::npos)
      << windows.dump(1);
  EXPECT_GT(windows[0].at("canary_side").at("accepted").get<int>(), 0);
  EXPECT_GT(windows[0].at("stable_side").at("accepted").get<int>(), 0);
  EXPECT_EQ(history.at("canaries").at(0).at("state"), "rolled_back");
  EXPECT_EQ(history.at("history").at(0).at("action"), "canary rolled back");
}

TEST_F(CanaryServerTest, Canary_WhenItFails_IsRolledBackAndOnlyItsShareFails) {
  ASSERT_NO_FATAL_FAILURE(start(kFails));
  Load load(server, 6);
  // The command waits until the canary serves, which may be over by the time it looks.
  const Ended begun =
      server.cli({"models", "alias", "chat", "--canary", "next=30", "--window", "2"});
  ASSERT_TRUE(begun.code == 0 || begun.err.find("canary rolled back") != std::string::npos)
      << begun.out << begun.err << server.errors();
  wait_for_end();
  const std::size_t then = load.ended();
  while (load.ended() < then + 30) std::this_thread::sleep_for(milliseconds(20));
  load.stop();
  const json decisions = history();
  expect_rolled_back(decisions, "failed");
  std::int64_t failed = 0;
  for (const StreamResult& one : load.results()) {
    EXPECT_EQ(one.failure, "");
    EXPECT_EQ(one.info.alias, "chat");
    if (one.info.state == wire::RequestState::kSucceeded) {
      EXPECT_EQ(one.info.model, "stable");
      EXPECT_EQ(static_cast<std::int64_t>(one.ids.size()), kTokens);
      continue;
    }
    ++failed;
    EXPECT_EQ(one.info.state, wire::RequestState::kFailed);
    EXPECT_EQ(one.info.model, "next");
  }
  // Requests that the canary had accepted and not begun went to the stable side without an error.
  const json& window = decisions.at("windows").at(0);
  const auto routed = window.at("canary_side").at("accepted").get<std::int64_t>();
  std::printf("%zu requests, %lld to the canary, %lld failed, windows %zu: %s\n",
              load.results().size(), static_cast<long long>(routed), static_cast<long long>(failed),
              decisions.at("windows").size(), window.at("reason").get<std::string>().c_str());
  EXPECT_GT(failed, 0);
  EXPECT_LE(failed, routed);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(CanaryServerTest, Canary_WhenItIsSlow_IsRolledBackWithoutClientErrors) {
  ASSERT_NO_FATAL_FAILURE(start(kSlow));
  ASSERT_NO_FATAL_FAILURE(load_on_other_worker("next", "stable"));
  Load load(server, 8);
  ASSERT_NO_FATAL_FAILURE(done(
      {"models", "alias", "chat", "--canary", "next=50", "--window", "2", "--min-requests", "4"}));
  wait_for_end();
  const std::size_t then = load.ended();
  while (load.ended() < then + 30) std::this_thread::sleep_for(milliseconds(20));
  load.stop();
  const json decisions = history();
  expect_rolled_back(decisions, "time");
  std::int64_t on_canary = 0;
  for (const StreamResult& one : load.results()) {
    EXPECT_EQ(one.failure, "");
    EXPECT_EQ(one.info.state, wire::RequestState::kSucceeded);
    EXPECT_EQ(static_cast<std::int64_t>(one.ids.size()), kTokens);
    on_canary += one.info.model == "next";
  }
  EXPECT_GT(on_canary, 0);
  std::printf("%zu requests, %lld ended on the canary, windows %zu: %s\n", load.results().size(),
              static_cast<long long>(on_canary), decisions.at("windows").size(),
              decisions.at("windows").at(0).at("reason").get<std::string>().c_str());
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(CanaryServerTest, AliasSwap_UnderLoad_LosesNoRequest) {
  ASSERT_NO_FATAL_FAILURE(start(kStable));
  Load load(server, 6);
  while (load.ended() < 20) std::this_thread::sleep_for(milliseconds(5));
  for (const char* to : {"next", "stable", "next=3,stable=1", "next"}) {
    ASSERT_NO_FATAL_FAILURE(done({"models", "alias", "chat", "--to", to, "--when-ready"}));
    const std::size_t then = load.ended();
    while (load.ended() < then + 30) std::this_thread::sleep_for(milliseconds(5));
  }
  ASSERT_TRUE(server.kill_child("daemon"));
  const std::size_t then = load.ended();
  while (load.ended() < then + 30) std::this_thread::sleep_for(milliseconds(5));
  load.stop();
  std::map<std::string, int> by_model;
  for (const StreamResult& one : load.results()) {
    EXPECT_EQ(one.failure, "");
    EXPECT_EQ(one.info.state, wire::RequestState::kSucceeded);
    EXPECT_EQ(static_cast<std::int64_t>(one.ids.size()), kTokens);
    ++by_model[one.info.model];
  }
  EXPECT_GT(by_model["stable"], 20);
  EXPECT_GT(by_model["next"], 20);
  const json alias = ask({"models", "show", "chat"});
  EXPECT_EQ(alias.at("targets").at(0).at("model"), "next");
  EXPECT_EQ(server.stop(), 0);
}

/// A load that fails leaves the old target, with the reason and exit code 4.
TEST_F(CanaryServerTest, AliasSwap_WhenTheNewModelCannotLoad_RetainsTheOldTarget) {
  ASSERT_NO_FATAL_FAILURE(start(R"({"fail_load": "no such weights"})"));
  done({"config", "set", "models.load_tries=1"});
  const Ended swap = server.cli({"models", "alias", "chat", "--to", "next", "--when-ready"});
  EXPECT_EQ(swap.code, 4) << swap.out << swap.err;
  EXPECT_NE(swap.err.find("no such weights"), std::string::npos) << swap.err;
  const Ended canary = server.cli({"models", "alias", "chat", "--canary", "next=10"});
  EXPECT_EQ(canary.code, 4) << canary.out << canary.err;
  EXPECT_NE(canary.err.find("no such weights"), std::string::npos) << canary.err;
  EXPECT_EQ(ask({"models", "show", "chat"}).at("targets").at(0).at("model"), "stable");
  EXPECT_EQ(server.cli({"run", "chat", "hello", "--max-tokens", "4"}).code, 0);
  EXPECT_EQ(server.cli({"models", "alias", "chat", "--to", "nobody"}).code, 3);
  EXPECT_EQ(server.cli({"models", "alias", "stable", "--to", "next"}).code, 4);
  EXPECT_EQ(server.cli({"models", "alias", "chat", "--to", "next=0"}).code, 2);
  EXPECT_EQ(server.cli({"models", "alias", "chat", "--canary", "next"}).code, 2);
  EXPECT_EQ(server.cli({"models", "alias", "--remove"}).code, 2);
  EXPECT_EQ(server.cli({"models", "remove", "next"}).code, 0);
  EXPECT_EQ(server.cli({"models", "remove", "stable"}).code, 4);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(CanaryServerTest, Canary_AfterADaemonKill_GoesOn) {
  ASSERT_NO_FATAL_FAILURE(start(kStable));
  ASSERT_NO_FATAL_FAILURE(
      done({"models", "alias", "chat", "--canary", "next=40", "--window", "600"}));
  const json before = ask({"models", "show", "chat"}).at("canary");
  EXPECT_EQ(before.at("state"), "running");
  ASSERT_TRUE(server.kill_child("daemon"));
  const json after = ask({"models", "show", "chat"}).at("canary");
  EXPECT_EQ(after.at("id"), before.at("id"));
  EXPECT_EQ(after.at("state"), "running");
  EXPECT_EQ(after.at("settings"), before.at("settings"));
  const std::string models = http_get(server.url(), "/v1/models");
  EXPECT_NE(models.find(R"("alias_of":"stable=1")"), std::string::npos) << models;
  ASSERT_NO_FATAL_FAILURE(done({"models", "alias", "chat", "--promote"}));
  EXPECT_EQ(server.stop(), 0);
  // Without a daemon the same is read, and changed, by the CLI alone.
  EXPECT_EQ(ask({"models", "alias", "chat"}).at("stands_for"), "next=1");
  EXPECT_EQ(ask({"models", "list"}).at("aliases").at(0).at("stands_for"), "next=1");
  ASSERT_NO_FATAL_FAILURE(done({"models", "alias", "chat", "--to", "stable=3,next=1"}));
  const json last = history().at("history").at(0);
  EXPECT_EQ(last.at("action"), "changed");
  EXPECT_EQ(last.at("to"), "stable=3,next=1");
  ASSERT_NO_FATAL_FAILURE(done({"models", "alias", "chat", "--remove"}));
  EXPECT_EQ(ask({"models", "alias"}).at("aliases"), json::array());
}

}  // namespace
}  // namespace holdfast::process::canary_test
