// Goal: the promise, on real processes: an accepted request is finished exactly once, each token is
// seen exactly once and in order, and the text is that of an undisturbed run, whichever process is
// killed. Method: `holdfast serve` with the demo model; SIGKILL to a process by its pid in the
// middle of a stream (from the stream's own callback, so the request cannot have ended before); the
// tokens and the text are compared with those of the same seeded request undisturbed.

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/test_server.h"

namespace holdfast::process::e2e_test {
namespace {

constexpr std::int64_t kTokens = 400;
constexpr std::uint64_t kSeed = 1234;
const char* const kPrompt = "O Romeo, Romeo, wherefore art thou";

class EndToEnd : public testing::Test {
 protected:
  void SetUp() override {
    server_ = std::make_unique<TestServer>(dir_.path() + "/state");
    ASSERT_TRUE(server_->start({"--model", "demo=" + demo_model()})) << server_->errors();
    client_ = server_->client();
  }
  void TearDown() override {
    client_.reset();
    if (server_->supervisor_pid() > 0) {
      EXPECT_EQ(server_->stop(), 0) << server_->errors();
    }
  }
  /// The undisturbed text, made once by the same server.
  StreamResult quiet() {
    const StreamResult result = submit_and_stream(*client_, make_submit(kPrompt, kTokens, kSeed));
    EXPECT_EQ(result.failure, "") << server_->errors();
    EXPECT_EQ(result.ids.size(), static_cast<std::size_t>(kTokens));
    EXPECT_FALSE(result.text.empty());
    return result;
  }
  /// Attempts that the daemon made for a request: more than one shows that the kill met running
  /// work.
  std::size_t attempts_of(const StreamResult& result) {
    const Ended show_result = server_->cli({"--json", "requests", "show", result.info.request_id});
    std::size_t count = 0;
    for (std::size_t at = 0;
         (at = show_result.out.find("\"fence_counter\"", at)) != std::string::npos; ++at) {
      ++count;
    }
    return count;
  }
  /// Waits until the supervisor has started the process again; the text may be there before.
  bool is_restarted(const std::string& name) {
    for (int i = 0; i < 500; ++i) {
      if (server_->restarts_of(name) >= 1) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  void expect_same(const StreamResult& result, const StreamResult& expected) {
    EXPECT_EQ(result.failure, "") << server_->errors();
    EXPECT_EQ(result.info.state, wire::RequestState::kSucceeded);
    EXPECT_EQ(result.ids, expected.ids);
    EXPECT_EQ(result.text, expected.text);
  }

  TempDir dir_;
  std::unique_ptr<TestServer> server_;
  std::unique_ptr<client::Client> client_;
};

TEST_F(EndToEnd, Generation_WithTheSameSeed_GivesTheSameText) {
  const StreamResult first = quiet();
  expect_same(submit_and_stream(*client_, make_submit(kPrompt, kTokens, kSeed)), first);
  EXPECT_NE(submit_and_stream(*client_, make_submit(kPrompt, kTokens, kSeed + 1)).text, first.text);
}

TEST_F(EndToEnd, Stream_WhenAProcessIsKilled_GoesOnWithTheSameText) {
  const StreamResult expected = quiet();
  for (const char* name : {"worker-0", "daemon", "ingress-0", "gateway"}) {
    SCOPED_TRACE(name);
    bool killed = false;
    const StreamResult result =
        submit_and_stream(*client_, make_submit(kPrompt, kTokens, kSeed), [&](std::size_t tokens) {
          if (!killed && tokens >= 20) killed = server_->kill_child(name);
        });
    EXPECT_TRUE(killed);
    expect_same(result, expected);
    EXPECT_TRUE(is_restarted(name));
    if (std::string(name) == "worker-0") {
      EXPECT_GE(attempts_of(result), 2U);
    }
  }
}

TEST_F(EndToEnd, Stream_UnderRepeatedKills_GivesTheSameText) {
  const StreamResult expected = quiet();
  std::size_t next_kill = 10;
  int kills = 0;
  const std::vector<std::string> victims = {"worker-0", "daemon"};
  const StreamResult result =
      submit_and_stream(*client_, make_submit(kPrompt, kTokens, kSeed), [&](std::size_t tokens) {
        if (tokens < next_kill) return;
        next_kill = tokens + 60;
        if (server_->kill_child(victims[static_cast<std::size_t>(kills) % victims.size()])) ++kills;
      });
  EXPECT_GE(kills, 2);
  expect_same(result, expected);
}

TEST_F(EndToEnd, Request_WhenTheWholeServerIsKilled_GoesOnAfterTheRestart) {
  const StreamResult expected = quiet();
  std::promise<void> streaming;
  bool told = false;
  // The server is started on this thread: its death signal is tied to the thread that forked.
  auto result = std::async(std::launch::async, [&] {
    return submit_and_stream(
        *client_, make_submit(kPrompt, kTokens, kSeed), [&](std::size_t tokens) {
          if (told || tokens < 20) return;
          told = true;
          streaming.set_value();
          std::this_thread::sleep_for(std::chrono::milliseconds(20));  // let the kill come first
        });
  });
  streaming.get_future().wait();
  server_->kill_supervisor();  // its children die with it
  EXPECT_TRUE(server_->start({"--model", "demo=" + demo_model()})) << server_->errors();
  expect_same(result.get(), expected);
}

TEST_F(EndToEnd, Requests_When64RunAtOnce_GiveTheTextOfEachAlone) {
  constexpr std::size_t kRequests = 64;
  std::vector<StreamResult> alone;
  const auto submit = [](std::size_t i) {
    return make_submit("Scene " + std::to_string(i) + ". Enter", 24 + static_cast<int>(i % 8), i);
  };
  for (std::size_t i = 0; i < kRequests; ++i)
    alone.push_back(submit_and_stream(*client_, submit(i)));
  std::vector<StreamResult> together(kRequests);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kRequests; ++i) {
    threads.emplace_back([&, i] { together[i] = submit_and_stream(*client_, submit(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kRequests; ++i) {
    SCOPED_TRACE(i);
    EXPECT_FALSE(alone[i].ids.empty());
    expect_same(together[i], alone[i]);
  }
}

TEST_F(EndToEnd, Gateway_WhenKilled_RefusesNoConnection) {
  ASSERT_NE(http_get(server_->url(), "/v1/models").find(" 200 "), std::string::npos);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(server_->kill_child("gateway"));
    // The kill may hit while our connection waits; then it is cut, which HTTP clients repeat. But
    // the socket is the supervisor's: connecting never fails.
    std::string answer;
    for (int tries = 0; tries < 100 && answer.empty(); ++tries) {
      answer = http_get(server_->url(), "/v1/models");
    }
    EXPECT_NE(answer.find(" 200 "), std::string::npos) << answer;
    EXPECT_NE(answer.find("demo"), std::string::npos) << answer;
  }
}

TEST_F(EndToEnd, Request_AcrossAnOrderlyStop_GivesTheSameText) {
  const StreamResult expected = quiet();
  wire::Submit submit = make_submit(kPrompt, kTokens, kSeed);
  submit.request_id = client::new_request_id();
  ASSERT_TRUE(
      std::holds_alternative<wire::Accepted>(client_->submit(client::Principal::local(), submit)));
  EXPECT_EQ(server_->stop(), 0);
  // Read from the database alone: the request is there, and nothing of it was lost.
  const Ended show_result = server_->cli({"--json", "requests", "show", submit.request_id});
  EXPECT_EQ(show_result.code, 0) << show_result.err;
  EXPECT_NE(show_result.out.find("\"attempts\""), std::string::npos) << show_result.out;
  ASSERT_TRUE(server_->start({"--model", "demo=" + demo_model()})) << server_->errors();
  expect_same(submit_and_stream(*client_, submit), expected);
}

TEST_F(EndToEnd, Submit_WithTheSameRequestId_IsADuplicate) {
  wire::Submit submit = make_submit(kPrompt, 32, kSeed);
  submit.request_id = client::new_request_id();
  const StreamResult first = submit_and_stream(*client_, submit);
  const auto again = client_->submit(client::Principal::local(), submit);
  ASSERT_TRUE(std::holds_alternative<wire::Accepted>(again));
  EXPECT_TRUE(std::get<wire::Accepted>(again).duplicate);
  expect_same(submit_and_stream(*client_, submit), first);
}

TEST_F(EndToEnd, Cli_AfterARun_ListsShowsAndTailsIt) {
  const Ended run =
      server_->cli({"run", "demo", kPrompt, "--raw", "--max-tokens", "40", "--seed", "7"});
  EXPECT_EQ(run.code, 0) << run.err << server_->errors();
  EXPECT_GT(run.out.size(), 20U);
  const Ended listed = server_->cli({"--json", "requests", "list", "--limit", "1"});
  EXPECT_EQ(listed.code, 0) << listed.err;
  const std::size_t at = listed.out.find("\"id\":\"");
  ASSERT_NE(at, std::string::npos) << listed.out;
  const std::string id = listed.out.substr(at + 6, listed.out.find('"', at + 6) - at - 6);
  const Ended show_result = server_->cli({"--json", "requests", "show", id});
  EXPECT_EQ(show_result.code, 0) << show_result.err;
  EXPECT_NE(show_result.out.find("\"state\":\"succeeded\""), std::string::npos) << show_result.out;
  EXPECT_NE(show_result.out.find("attempts"), std::string::npos) << show_result.out;
  const Ended tailed = server_->cli({"requests", "tail", id});
  EXPECT_EQ(tailed.code, 0) << tailed.err;
  EXPECT_EQ(tailed.out, run.out);
  for (const std::vector<std::string>& verb :
       std::vector<std::vector<std::string>>{{"status"},
                                             {"models", "list"},
                                             {"models", "show", "demo"},
                                             {"workers", "list"},
                                             {"queue", "stats"},
                                             {"config", "list"},
                                             {"requests", "list"}}) {
    const Ended human = server_->cli(verb);
    EXPECT_EQ(human.code, 0) << verb[0] << ": " << human.err;
    EXPECT_FALSE(human.out.empty()) << verb[0];
  }
}

}  // namespace
}  // namespace holdfast::process::e2e_test
