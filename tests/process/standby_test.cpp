// Goal: two machines are one service: what the primary accepted goes on at the standby, with the
// same text, when all of the primary is killed at once; an operator may have them change roles; a
// primary that was followed by another answers nothing any more.
// Method: real programs over loopback with CURVE, each server with a state directory of its own and
// a node with workers that knows both; the record of the pair is a real etcd where one is
// installed, or one of the test where an answer has to come late.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "shared/base/exit_status.h"
#include "tests/process/etcd_server.h"
#include "tests/process/machine_pair.h"
#include "tests/process/record_server.h"
#include "tests/process/test_server.h"

namespace holdfast::process::standby_test {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr int kTokens = 400;

wire::Submit submission(std::int64_t tokens) {
  wire::Submit submit = make_submit("once", tokens, 7);
  submit.model = "m";
  return submit;
}

/// Streams one request, and calls `disturb` once after a quarter of it. `pause` gets the longest
/// time between two events.
StreamResult stream_and(MachinePair& pair, const std::function<void()>& disturb,
                        milliseconds* pause = nullptr) {
  const auto client = pair.client();
  bool done = false;
  auto last = SteadyClock::now();
  auto longest = milliseconds(0);
  auto result = submit_and_stream(*client, submission(kTokens), [&](std::size_t tokens) {
    const auto now = SteadyClock::now();
    longest = std::max(longest, std::chrono::duration_cast<milliseconds>(now - last));
    last = now;
    if (done || tokens <= kTokens / 4) return;
    done = true;
    disturb();
  });
  if (pause != nullptr) *pause = longest;
  return result;
}

TEST(Standby, Primary_WhenAllOfItIsKilled_IsFollowedByThePromotedStandby) {
  MachinePair pair;
  ASSERT_TRUE(pair.start());
  ASSERT_TRUE(pair.serve_model());
  const StreamResult calm = stream_and(pair, [] {});
  ASSERT_EQ(calm.failure, "");
  ASSERT_EQ(calm.ids.size(), static_cast<std::size_t>(kTokens));
  std::thread operator_thread;
  const StreamResult moved = stream_and(pair, [&] {
    operator_thread = std::thread([&] {
      pair.first.lose();
      std::this_thread::sleep_for(milliseconds(1'200));
      const Ended promoted = pair.second.cli({"ha", "promote"});
      EXPECT_EQ(promoted.code, 0) << promoted.err;
    });
  });
  operator_thread.join();
  EXPECT_EQ(moved.failure, "") << pair.second.story();
  EXPECT_EQ(moved.ids, calm.ids);
  EXPECT_EQ(moved.text, calm.text);
}

TEST(Standby, Switch_WhileARequestRuns_ChangesTheRolesAndNothingElse) {
  MachinePair pair;
  ASSERT_TRUE(pair.start());
  ASSERT_TRUE(pair.serve_model());
  EXPECT_EQ(pair.first.cli({"ha", "status", "--check"}).code, 0);
  EXPECT_EQ(pair.second.cli({"ha", "status", "--check"}).code, 0);
  const StreamResult calm = stream_and(pair, [] {});
  std::thread operator_thread;
  const StreamResult moved = stream_and(pair, [&] {
    operator_thread = std::thread([&] {
      const Ended switched = pair.first.cli({"ha", "switch"});
      EXPECT_EQ(switched.code, 0) << switched.err;
    });
  });
  operator_thread.join();
  EXPECT_EQ(moved.failure, "") << pair.second.story();
  EXPECT_EQ(moved.ids, calm.ids);
  EXPECT_TRUE(pair.second.reaches("role", "primary")) << pair.second.story();
  EXPECT_TRUE(pair.first.reaches("role", "standby")) << pair.first.story();
  EXPECT_TRUE(pair.second.reaches("state", "in_step")) << pair.second.story();
}

TEST(Standby, Promote_WhileThePrimaryLives_IsRefused) {
  MachinePair pair;
  ASSERT_TRUE(pair.start());
  const Ended refused = pair.second.cli({"ha", "promote"});
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.err.find("lives"), std::string::npos) << refused.err;
  const Ended written = pair.second.cli({"config", "set", "ha.silence_ms=700"});
  EXPECT_NE(written.code, 0) << "the copy was changed";
}

TEST(Standby, StrictKnob_WithoutAStandby_RefusesNewRequests) {
  MachinePair pair;
  ASSERT_TRUE(pair.start());
  ASSERT_TRUE(pair.serve_model());
  EXPECT_EQ(pair.first.cli({"config", "set", "ha.strict=1"}).code, 0);
  const auto client = pair.client();
  EXPECT_EQ(submit_and_stream(*client, submission(4)).failure, "");
  pair.second.lose();
  EXPECT_EQ(pair.second.cli({"ha", "status", "--check"}).code, 69);
  EXPECT_TRUE(pair.first.reaches("state", "missing")) << pair.first.story();
  const StreamResult refused = submit_and_stream(*client, submission(4));
  EXPECT_NE(refused.failure.find("no_standby"), std::string::npos) << refused.failure;
  EXPECT_EQ(pair.first.cli({"config", "set", "ha.strict=0"}).code, 0);
  EXPECT_TRUE(pair.first.reaches("state", "alone")) << pair.first.story();
  EXPECT_EQ(submit_and_stream(*client, submission(4)).failure, "");
}

TEST(Standby, SilenceKnob_WhenRaised_HasThePrimaryWait) {
  for (const auto& [silence_ms, lost] : {std::pair("500", true), {"30000", false}}) {
    MachinePair pair;
    ASSERT_TRUE(pair.start());
    ASSERT_EQ(pair.first.cli({"config", "set", std::string("ha.silence_ms=") + silence_ms}).code,
              0);
    const pid_t standby = pair.second.daemon();
    ASSERT_GT(standby, 0);
    kill(standby, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(1'500));
    kill(standby, SIGCONT);
    EXPECT_TRUE(pair.first.reaches("state", "in_step")) << pair.first.story();
    const bool told = pair.first.story().find("the standby is lost") != std::string::npos;
    EXPECT_EQ(told, lost) << silence_ms;
  }
}

TEST(Standby, Record_WhenThePrimaryIsLost_HasTheStandbyTakeOverByItself) {
  EtcdServer etcd;
  if (!etcd.start()) GTEST_SKIP() << "no etcd in the build's tools/: ops/test fetches it";
  MachinePair pair;
  ASSERT_TRUE(pair.start(etcd.url() + "/holdfast"));
  ASSERT_TRUE(pair.serve_model());
  const StreamResult calm = stream_and(pair, [] {});
  for (int round = 0; round < 2; ++round) {
    Machine& primary = round == 0 ? pair.first : pair.second;
    Machine& standby = round == 0 ? pair.second : pair.first;
    ASSERT_TRUE(primary.reaches("state", "in_step")) << primary.story();
    milliseconds pause{};
    const StreamResult moved = stream_and(
        pair, [&] { primary.lose(); }, &pause);
    std::printf("a lost machine: %lld ms without a token\n", static_cast<long long>(pause.count()));
    EXPECT_EQ(moved.failure, "") << standby.story();
    EXPECT_EQ(moved.ids, calm.ids);
    EXPECT_TRUE(standby.reaches("role", "primary")) << standby.story();
    // The lost machine comes back, as the standby.
    primary.start(pair.flags_of(""));
    EXPECT_TRUE(primary.reaches("role", "standby")) << primary.story();
  }
}

TEST(Standby, StandbyAndRecord_WhenBothAreLost_StopAdmissionAlone) {
  EtcdServer etcd;
  if (!etcd.start()) GTEST_SKIP() << "no etcd in the build's tools/: ops/test fetches it";
  MachinePair pair;
  ASSERT_TRUE(pair.start(etcd.url() + "/holdfast"));
  ASSERT_TRUE(pair.serve_model());
  const StreamResult calm = stream_and(pair, [] {});
  const auto client = pair.client();
  // The end of what runs is told once the record is back: the standby might go on from before it.
  const StreamResult running = stream_and(pair, [&] {
    etcd.stop();
    pair.second.lose();
    EXPECT_TRUE(pair.first.reaches("state", "missing")) << pair.first.story();
    const StreamResult refused = submit_and_stream(*client, submission(4));
    EXPECT_NE(refused.failure.find("no_standby"), std::string::npos) << refused.failure;
    ASSERT_TRUE(etcd.start());
    EXPECT_TRUE(pair.first.reaches("state", "alone", 3'000)) << pair.first.story();
  });
  EXPECT_EQ(running.failure, "") << "what runs ends: " << pair.first.story();
  EXPECT_EQ(running.ids, calm.ids);
  const StreamResult accepted = submit_and_stream(*client, submission(4));
  EXPECT_EQ(accepted.failure, "");
  EXPECT_EQ(accepted.ids.size(), 4u);
}

/// The pid of the daemon of a supervisor that has not noted it yet; 0: there is none.
pid_t child_of(pid_t supervisor) {
  const std::string pid = std::to_string(supervisor);
  std::istringstream children(read_file("/proc/" + pid + "/task/" + pid + "/children"));
  for (std::string child; children >> child;) {
    if (read_file("/proc/" + child + "/comm") == "holdfastd\n") return std::atoi(child.c_str());
  }
  return 0;
}

bool has_ended(pid_t pid) {
  return read_file("/proc/" + std::to_string(pid) + "/stat").find(") Z ") != std::string::npos;
}

// The first machine's claim of the record is answered once the second one has taken over, and its
// supervisor stands still: the daemon begins to serve and finds the other primary before it has
// answered its supervisor. Any status that sysexits.h has would end `serve` for good then.
TEST(Standby, Primary_ThatFindsAnotherBeforeItAnsweredItsSupervisor_IsTheStandby) {
  RecordServer record;
  MachinePair pair;
  ASSERT_TRUE(pair.start(record.address()));
  record.refuse(true);
  pair.first.lose();
  std::promise<pid_t> supervisor;
  auto started = supervisor.get_future().share();
  const std::string late = record.late_address([&] {
    kill(started.get(), SIGSTOP);
    record.refuse(false);
  });
  pair.first.start({"--record", late});
  supervisor.set_value(pair.first.supervisor());
  ASSERT_TRUE(pair.second.reaches("role", "primary")) << pair.second.story();
  const pid_t daemon = child_of(pair.first.supervisor());
  ASSERT_GT(daemon, 0) << record.text() << pair.first.story();
  const auto until = SteadyClock::now() + milliseconds(20'000);
  while (!has_ended(daemon) && SteadyClock::now() < until) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  ASSERT_TRUE(has_ended(daemon)) << record.text() << pair.first.story();
  kill(pair.first.supervisor(), SIGCONT);
  EXPECT_TRUE(pair.first.reaches("role", "standby")) << pair.first.story();
  EXPECT_TRUE(pair.second.reaches("state", "in_step")) << pair.second.story();
  EXPECT_NE(
      pair.first.story().find("exited with status " + std::to_string(exit_status::kOtherPrimary) +
                              "; starting it again"),
      std::string::npos)
      << pair.first.story();
}

TEST(Standby, StoppedPrimary_WhenItGoesOn_AnswersNothing) {
  EtcdServer etcd;
  if (!etcd.start()) GTEST_SKIP() << "no etcd in the build's tools/: ops/test fetches it";
  MachinePair pair;
  ASSERT_TRUE(pair.start(etcd.url() + "/holdfast"));
  ASSERT_TRUE(pair.first.reaches("state", "in_step")) << pair.first.story();
  const pid_t daemon = pair.first.daemon();
  ASSERT_GT(daemon, 0);
  kill(daemon, SIGSTOP);
  EXPECT_TRUE(pair.second.reaches("role", "primary")) << pair.second.story();
  kill(daemon, SIGCONT);
  EXPECT_TRUE(pair.first.reaches("role", "standby")) << pair.first.story();
  EXPECT_NE(pair.first.daemon(), daemon);
}

TEST(Standby, StatusCheck_OfAStandbyThatIsNotInStep_Fails) {
  MachinePair pair;
  ASSERT_TRUE(pair.start());
  const TempDir dir;
  Machine lonely(dir.path(), "three", false);
  ASSERT_EQ(
      pair.first
          .cli({"keys", "client", "create", "three", "--role", "standby", "--out", lonely.key()})
          .code,
      0);
  lonely.start({"--standby-of", "tcp://" + free_address()});
  ASSERT_TRUE(lonely.reaches("role", "standby")) << lonely.story();
  EXPECT_EQ(lonely.cli({"ha", "status"}).code, 0);
  EXPECT_EQ(lonely.cli({"ha", "status", "--check"}).code, 1);
}

}  // namespace
}  // namespace holdfast::process::standby_test
