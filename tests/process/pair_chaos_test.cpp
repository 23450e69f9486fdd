// Goal: whatever happens to one machine of a pair, an accepted request is finished once, with the
// text of an undisturbed run.
// Method: clients submit and stream without a pause while machines lose their power, cables are
// cut, daemons stand still or die, machines change roles; the record is a real etcd. Each text is
// compared. 12 events, or as many as HOLDFAST_PAIR_EVENTS says.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/etcd_server.h"
#include "tests/process/machine_pair.h"

namespace holdfast::process::pair_chaos_test {
namespace {

using std::chrono::milliseconds;

constexpr int kClients = 3;
constexpr std::uint64_t kSeeds = 4;
constexpr std::int64_t kTokens = 120;

wire::Submit submission(std::uint64_t seed) {
  wire::Submit submit = make_submit("once", kTokens, seed);
  submit.model = "m";
  return submit;
}

/// Clients that submit until they are stopped.
class Clients {
 public:
  explicit Clients(MachinePair& pair) : pair_(pair) {}

  /// Notes the texts of an undisturbed run.
  testing::AssertionResult note_texts() {
    const auto client = pair_.client();
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const StreamResult calm = submit_and_stream(*client, submission(seed));
      if (!calm.failure.empty()) return testing::AssertionFailure() << calm.failure;
      texts_[seed] = calm;
    }
    return testing::AssertionSuccess();
  }
  void start() {
    for (int i = 0; i < kClients; ++i) threads_.emplace_back([this, i] { run(i); });
  }
  void stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  int finished() const { return finished_; }
  std::vector<std::string> wrong() {
    const std::lock_guard lock(mutex_);
    return wrong_;
  }

 private:
  void run(int number) {
    const auto client = pair_.client();
    for (std::uint64_t i = static_cast<std::uint64_t>(number); !stop_; ++i) {
      const std::uint64_t seed = i % kSeeds;
      const StreamResult got = submit_and_stream(*client, submission(seed));
      // A refusal promises nothing; without a standby and a record there is one.
      if (got.failure.find("no_standby") != std::string::npos) {
        std::this_thread::sleep_for(milliseconds(50));
        continue;
      }
      const StreamResult& calm = texts_.at(seed);
      if (got.failure.empty() && got.ids == calm.ids && got.text == calm.text) {
        ++finished_;
        continue;
      }
      const std::lock_guard lock(mutex_);
      wrong_.push_back(got.failure.empty() ? "another text: " + got.text : got.failure);
    }
  }

  MachinePair& pair_;
  std::map<std::uint64_t, StreamResult> texts_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false};
  std::atomic<int> finished_{0};
  std::mutex mutex_;
  std::vector<std::string> wrong_;
};

/// The events, each with what mends it.
class Events {
 public:
  explicit Events(MachinePair& pair) : pair_(pair) {}

  /// Waits for a pair in step, then has one event; returns its name, empty if the pair is not whole
  /// again in time.
  std::string next(std::mt19937& random) {
    Machine* primary = find_primary();
    if (primary == nullptr) return {};
    Machine& standby = primary == &pair_.first ? pair_.second : pair_.first;
    switch (random() % 6) {
      case 0:
        primary->lose();
        pause(random, 1'500);
        primary->start(pair_.flags_of(""));
        return "power of the primary";
      case 1:
        primary->cable().cut();
        pause(random, 2'500);
        primary->cable().mend();
        return "cable";
      case 2:
        stop_for(primary->daemon(), random);
        return "primary stands still";
      case 3:
        standby.lose();
        pause(random, 800);
        standby.start(pair_.flags_of(""));
        return "power of the standby";
      case 4:
        (void)primary->cli({"ha", "switch"});
        return "switch";
      default:
        if (const pid_t pid = primary->daemon(); pid > 0) kill(pid, SIGKILL);
        return "daemon of the primary";
    }
  }

 private:
  static void pause(std::mt19937& random, int most_ms) {
    std::this_thread::sleep_for(milliseconds(random() % static_cast<unsigned>(most_ms)));
  }
  static void stop_for(pid_t pid, std::mt19937& random) {
    if (pid <= 0) return;
    kill(pid, SIGSTOP);
    pause(random, 2'500);
    kill(pid, SIGCONT);
  }
  Machine* find_primary() {
    for (int i = 0; i < 600; ++i) {
      for (Machine* machine : {&pair_.first, &pair_.second}) {
        if (machine->status("role") == "primary" && machine->status("state") == "in_step") {
          return machine;
        }
      }
      std::this_thread::sleep_for(milliseconds(30));
    }
    return nullptr;
  }
  MachinePair& pair_;
};

int event_count() {
  const char* text = std::getenv("HOLDFAST_PAIR_EVENTS");
  return text != nullptr ? std::atoi(text) : 12;
}

TEST(PairChaos, AcceptedRequests_WhateverHappensToOneMachine_HaveTheirText) {
  EtcdServer etcd;
  if (!etcd.start()) GTEST_SKIP() << "no etcd in the build's tools/: ops/test fetches it";
  MachinePair pair(/*cables=*/true);
  ASSERT_TRUE(pair.start(etcd.url() + "/holdfast"));
  ASSERT_TRUE(pair.serve_model());
  Clients clients(pair);
  ASSERT_TRUE(clients.note_texts());
  clients.start();
  Events events(pair);
  std::mt19937 random(20261128);
  std::map<std::string, int> counts;
  for (int i = 0; i < event_count() && !HasFailure(); ++i) {
    const std::string name = events.next(random);
    EXPECT_NE(name, "") << "the pair is not whole again after event " << i << "\n" << pair.story();
    ++counts[name];
    EXPECT_TRUE(clients.wrong().empty());
  }
  clients.stop();
  for (const std::string& wrong : clients.wrong()) ADD_FAILURE() << wrong;
  EXPECT_GT(clients.finished(), event_count());
  for (const auto& [name, count] : counts) std::printf("%4d %s\n", count, name.c_str());
  std::printf("%d requests finished, all texts equal\n", clients.finished());
}

}  // namespace
}  // namespace holdfast::process::pair_chaos_test
