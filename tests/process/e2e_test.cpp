// Goal: the promise, on real processes: an accepted request is finished exactly once, each token is
// seen exactly once and in order, and the text is that of an undisturbed run, whoever is killed.
// Method: `holdfast serve` with the demo model; SIGKILL to a process by its pid in the middle of a
// stream (from the stream's own callback, so the request cannot have ended before); the tokens and
// the text are compared with those of the same seeded request undisturbed.

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/house.h"

namespace holdfast::process::e2e_test {
namespace {

constexpr std::int64_t kTokens = 400;
constexpr std::uint64_t kSeed = 1234;
const char* const kPrompt = "O Romeo, Romeo, wherefore art thou";

class EndToEnd : public testing::Test {
 protected:
  void SetUp() override {
    house_ = std::make_unique<House>(dir_.path() + "/state");
    ASSERT_TRUE(house_->start({"--model", "demo=" + demo_model()})) << house_->errors();
    client_ = house_->client();
  }
  void TearDown() override {
    client_.reset();
    if (house_->supervisor_pid() > 0) {
      EXPECT_EQ(house_->stop(), 0) << house_->errors();
    }
  }
  /// The undisturbed text, once from the same house.
  Heard quiet() {
    const Heard heard = hear(*client_, make_submit(kPrompt, kTokens, kSeed));
    EXPECT_EQ(heard.failure, "") << house_->errors();
    EXPECT_EQ(heard.ids.size(), static_cast<std::size_t>(kTokens));
    EXPECT_FALSE(heard.text.empty());
    return heard;
  }
  /// Tries that the daemon made for a request: more than one shows that the kill met running work.
  std::size_t attempts_of(const Heard& heard) {
    const Ended shown = house_->cli({"--json", "requests", "show", heard.info.request_id});
    std::size_t count = 0;
    for (std::size_t at = 0; (at = shown.out.find("\"fence_counter\"", at)) != std::string::npos;
         ++at) {
      ++count;
    }
    return count;
  }
  void expect_same(const Heard& heard, const Heard& expected) {
    EXPECT_EQ(heard.failure, "") << house_->errors();
    EXPECT_EQ(heard.info.state, wire::RequestState::kSucceeded);
    EXPECT_EQ(heard.ids, expected.ids);
    EXPECT_EQ(heard.text, expected.text);
  }

  TempDir dir_;
  std::unique_ptr<House> house_;
  std::unique_ptr<client::Client> client_;
};

TEST_F(EndToEnd, TextComesAndTheSeedDecidesIt) {
  const Heard first = quiet();
  expect_same(hear(*client_, make_submit(kPrompt, kTokens, kSeed)), first);
  EXPECT_NE(hear(*client_, make_submit(kPrompt, kTokens, kSeed + 1)).text, first.text);
}

TEST_F(EndToEnd, StreamsGoOnWhenAProcessIsKilled) {
  const Heard expected = quiet();
  for (const char* name : {"worker-0", "daemon", "ingress-0", "gateway"}) {
    SCOPED_TRACE(name);
    bool killed = false;
    const Heard heard =
        hear(*client_, make_submit(kPrompt, kTokens, kSeed), [&](std::size_t tokens) {
          if (!killed && tokens >= 20) killed = house_->kill_child(name);
        });
    EXPECT_TRUE(killed);
    expect_same(heard, expected);
    EXPECT_GE(house_->restarts_of(name), 1);
    if (std::string(name) == "worker-0") {
      EXPECT_GE(attempts_of(heard), 2U);
    }
  }
}

TEST_F(EndToEnd, RepeatedKillsOfEverybodyChangeNothing) {
  const Heard expected = quiet();
  std::size_t next_kill = 10;
  int kills = 0;
  const std::vector<std::string> victims = {"worker-0", "daemon"};
  const Heard heard = hear(*client_, make_submit(kPrompt, kTokens, kSeed), [&](std::size_t tokens) {
    if (tokens < next_kill) return;
    next_kill = tokens + 60;
    if (house_->kill_child(victims[static_cast<std::size_t>(kills) % victims.size()])) ++kills;
  });
  EXPECT_GE(kills, 2);
  expect_same(heard, expected);
}

TEST_F(EndToEnd, ARequestOutlivesTheWholeHouse) {
  const Heard expected = quiet();
  std::promise<void> streaming;
  bool told = false;
  // The house is started on this thread: its death signal is tied to the thread that forked.
  auto heard = std::async(std::launch::async, [&] {
    return hear(*client_, make_submit(kPrompt, kTokens, kSeed), [&](std::size_t tokens) {
      if (told || tokens < 20) return;
      told = true;
      streaming.set_value();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // let the kill come first
    });
  });
  streaming.get_future().wait();
  house_->kill_supervisor();  // its children die with it
  EXPECT_TRUE(house_->start({"--model", "demo=" + demo_model()})) << house_->errors();
  expect_same(heard.get(), expected);
}

TEST_F(EndToEnd, SixtyFourAtOnceGetTheTextThatEachGetsAlone) {
  constexpr std::size_t kRequests = 64;
  std::vector<Heard> alone;
  const auto submit = [](std::size_t i) {
    return make_submit("Scene " + std::to_string(i) + ". Enter", 24 + static_cast<int>(i % 8), i);
  };
  for (std::size_t i = 0; i < kRequests; ++i) alone.push_back(hear(*client_, submit(i)));
  std::vector<Heard> together(kRequests);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kRequests; ++i) {
    threads.emplace_back([&, i] { together[i] = hear(*client_, submit(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kRequests; ++i) {
    SCOPED_TRACE(i);
    EXPECT_FALSE(alone[i].ids.empty());
    expect_same(together[i], alone[i]);
  }
}

TEST_F(EndToEnd, AKilledGatewayRefusesNobody) {
  ASSERT_NE(http_get(house_->url(), "/v1/models").find(" 200 "), std::string::npos);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(house_->kill_child("gateway"));
    // The kill may hit while our connection waits; then it is cut, which HTTP clients repeat. But
    // the socket is the supervisor's: connecting never fails.
    std::string answer;
    for (int tries = 0; tries < 100 && answer.empty(); ++tries) {
      answer = http_get(house_->url(), "/v1/models");
    }
    EXPECT_NE(answer.find(" 200 "), std::string::npos) << answer;
    EXPECT_NE(answer.find("demo"), std::string::npos) << answer;
  }
}

TEST_F(EndToEnd, AnOrderlyStopLetsRunningWorkFinish) {
  const Heard expected = quiet();
  wire::Submit submit = make_submit(kPrompt, kTokens, kSeed);
  submit.request_id = client::new_request_id();
  ASSERT_TRUE(
      std::holds_alternative<wire::Accepted>(client_->submit(client::Principal::local(), submit)));
  EXPECT_EQ(house_->stop(), 0);
  // From the database alone: the request is there, and nothing of it was lost.
  const Ended shown = house_->cli({"--json", "requests", "show", submit.request_id});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("\"attempts\""), std::string::npos) << shown.out;
  ASSERT_TRUE(house_->start({"--model", "demo=" + demo_model()})) << house_->errors();
  expect_same(hear(*client_, submit), expected);
}

TEST_F(EndToEnd, TheSameIdIsOneRequest) {
  wire::Submit submit = make_submit(kPrompt, 32, kSeed);
  submit.request_id = client::new_request_id();
  const Heard first = hear(*client_, submit);
  const auto again = client_->submit(client::Principal::local(), submit);
  ASSERT_TRUE(std::holds_alternative<wire::Accepted>(again));
  EXPECT_TRUE(std::get<wire::Accepted>(again).duplicate);
  expect_same(hear(*client_, submit), first);
}

TEST_F(EndToEnd, TheCliRunsShowsAndTails) {
  const Ended run =
      house_->cli({"run", "demo", kPrompt, "--raw", "--max-tokens", "40", "--seed", "7"});
  EXPECT_EQ(run.code, 0) << run.err << house_->errors();
  EXPECT_GT(run.out.size(), 20U);
  const Ended listed = house_->cli({"--json", "requests", "list", "--limit", "1"});
  EXPECT_EQ(listed.code, 0) << listed.err;
  const std::size_t at = listed.out.find("\"id\":\"");
  ASSERT_NE(at, std::string::npos) << listed.out;
  const std::string id = listed.out.substr(at + 6, listed.out.find('"', at + 6) - at - 6);
  const Ended shown = house_->cli({"--json", "requests", "show", id});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("\"state\":\"succeeded\""), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("attempts"), std::string::npos) << shown.out;
  const Ended tailed = house_->cli({"requests", "tail", id});
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
    const Ended human = house_->cli(verb);
    EXPECT_EQ(human.code, 0) << verb[0] << ": " << human.err;
    EXPECT_FALSE(human.out.empty()) << verb[0];
  }
}

}  // namespace
}  // namespace holdfast::process::e2e_test
