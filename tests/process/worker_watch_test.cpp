// Goal: only silence that a worker could have ended counts against it, and an end or a stop is
// reported at once. Method: the real watch over child processes of this test; its clock is set by
// hand.
#include "control/endpoints/worker_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace holdfast::daemon::worker_watch_test {
namespace {

using core::WorkerHealth;
using Process = WorkerHealth::Process;
constexpr core::PeerId kPeer = 7;
constexpr std::int64_t kMs = 1000;

/// A field of /proc/PID/stat, from the third one on.
std::string stat_field(pid_t pid, int number) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream rest(line.substr(line.rfind(')') + 2));
  std::string word;
  for (int field = 3; field <= number; ++field) rest >> word;
  return word;
}

struct WorkerWatchTest : testing::Test {
  pid_t pid = 0;
  WorkerWatch watch;
  core::Config config;
  std::int64_t now = 1'000'000'000;
  std::vector<core::PeerId> pinged;

  void SetUp() override {
    pid = fork();
    if (pid == 0) {
      while (true) pause();
    }
    while (stat_field(pid, 3) != "S") usleep(1000);  // a sleeping process is not held up
    look(0);
  }
  void TearDown() override { end(); }
  void end() {
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = 0;
  }
  void greet(bool here = true) {
    wire::Hello hello;
    hello.pid = pid;
    hello.started_ticks = here ? std::stoll(stat_field(pid, 22)) : 0;
    watch.greeted(kPeer, hello, true, now);
  }
  /// The health that a look after so long reports, if it reports any.
  std::optional<WorkerHealth> look(std::int64_t after_ms, bool busy = true) {
    now += after_ms * kMs;
    const WorkerWatch::Look result = watch.look(config, busy, now);
    pinged.insert(pinged.end(), result.to_ping.begin(), result.to_ping.end());
    if (result.health.empty()) return std::nullopt;
    EXPECT_EQ(result.health[0].peer, kPeer);
    return result.health[0];
  }
  WorkerHealth look_for(std::int64_t ms) {
    std::optional<WorkerHealth> last;
    for (std::int64_t t = 0; t < ms; t += 20) {
      if (const auto health = look(20)) last = health;
    }
    return last.value_or(WorkerHealth{});
  }
};

TEST_F(WorkerWatchTest, WorkerSilence_WhenASleepingWorkerDoesNotAnswer_IsUnexcused) {
  greet();
  const WorkerHealth health = look_for(1200);
  EXPECT_EQ(pinged, (std::vector<core::PeerId>{kPeer, kPeer}));  // once more after a second
  EXPECT_EQ(health.process, Process::kAlive);
  EXPECT_NEAR(static_cast<double>(health.silent_us), 1100 * kMs, 60 * kMs);
  EXPECT_GT(health.unexcused_us, 1000 * kMs);
}

TEST_F(WorkerWatchTest, WorkerSilence_WhenAMessageArrives_EndsAndIsReported) {
  greet();
  EXPECT_GT(look_for(300).silent_us, 0);
  watch.received(kPeer, now);
  const auto well = look(20);
  ASSERT_TRUE(well.has_value());
  EXPECT_EQ(well->silent_us, 0);
  EXPECT_FALSE(look(20).has_value());
}

TEST_F(WorkerWatchTest, WorkerSilence_WhenALookComesLate_GrowsByOnePeriod) {
  greet();
  look_for(120);
  const auto before = look(20);
  ASSERT_TRUE(before.has_value());
  const auto after = look(40'000);  // we were stopped ourselves
  ASSERT_TRUE(after.has_value());
  EXPECT_LE(after->silent_us - before->silent_us, 30 * kMs);
}

TEST_F(WorkerWatchTest, WorkerWatch_WhenTheWorkerIsStopped_ReportsItWithItsTime) {
  greet();
  kill(pid, SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  look(20);
  const auto health = look(40);
  ASSERT_TRUE(health.has_value());
  EXPECT_EQ(health->process, Process::kStopped);
  EXPECT_EQ(health->stopped_us, 40 * kMs);
  EXPECT_EQ(health->unexcused_us, 0);
  kill(pid, SIGCONT);
  ASSERT_EQ(waitpid(pid, &status, WCONTINUED), pid);
  EXPECT_EQ(look(20)->process, Process::kAlive);
}

TEST_F(WorkerWatchTest, WorkerWatch_WhenTheProcessEnds_ReportsItOnceBetweenLooks) {
  greet();
  const std::vector<int> exits = watch.exit_fds();
  ASSERT_EQ(exits.size(), 1u);
  EXPECT_FALSE(look(1).has_value());
  end();
  pollfd gone{exits[0], POLLIN, 0};
  ASSERT_EQ(poll(&gone, 1, 10'000), 1);
  watch.note_exit();
  EXPECT_EQ(look(1)->process, Process::kEnded);
  EXPECT_FALSE(look(1000).has_value());
  EXPECT_TRUE(watch.exit_fds().empty());
}

TEST_F(WorkerWatchTest, WorkerWatch_WithAWorkerOfAnotherHost_JudgesBySilenceAlone) {
  greet(false);
  EXPECT_TRUE(watch.exit_fds().empty());
  const WorkerHealth health = look_for(1300);
  EXPECT_EQ(health.process, Process::kUnknown);
  EXPECT_GE(health.unexcused_us, 1000 * kMs);
}

/// A worker of another machine, whose node tells what it sees.
struct RemoteWorkerTest : WorkerWatchTest {
  using State = wire::WorkerFact::State;
  void SetUp() override {
    WorkerWatchTest::SetUp();
    wire::Hello hello;
    hello.pid = 4711;
    hello.worker_key = "n/worker-0";
    watch.greeted(kPeer, hello, false, now);
  }
  void tell(State state, std::uint32_t stopped_ms = 0, std::uint64_t held_up_us = 0) {
    watch.tell("n", {{12, State::kStopped, 9'999, 0}, {4711, state, stopped_ms, held_up_us}}, now);
  }
};

TEST_F(RemoteWorkerTest, Stop_ThatItsNodeTells_IsReportedAtOnceWithItsTime) {
  tell(State::kAlive);
  look(20);
  EXPECT_FALSE(look(20).has_value());
  now += 5 * kMs;
  tell(State::kStopped, 8);
  EXPECT_LE(*watch.next_look_us(), now) << "a look is due";
  auto health = look(0);
  ASSERT_TRUE(health.has_value());
  EXPECT_EQ(health->process, Process::kStopped);
  EXPECT_EQ(health->stopped_us, 8 * kMs);
  health = look(45);
  ASSERT_TRUE(health.has_value());
  EXPECT_EQ(health->stopped_us, 53 * kMs);
  tell(State::kAlive);
  health = look(0);
  ASSERT_TRUE(health.has_value());
  EXPECT_EQ(health->process, Process::kAlive);
  EXPECT_EQ(health->stopped_us, 0);
}

TEST_F(RemoteWorkerTest, Silence_InWhichItWaitedForAProcessor_IsExcused) {
  std::uint64_t held_up_us = 123'000'000;  // of before
  for (int i = 0; i < 100; ++i) {
    held_up_us += 20 * kMs;
    tell(State::kAlive, 0, held_up_us);
    look(20);
  }
  tell(State::kAlive, 0, held_up_us);
  const WorkerHealth health = look_for(100);
  EXPECT_GT(health.silent_us, 1'500 * kMs);
  EXPECT_LT(health.unexcused_us, 200 * kMs);
  tell(State::kAlive, 0, 5);  // another process counts
  EXPECT_LT(look(20)->unexcused_us, 300 * kMs);
}

TEST_F(RemoteWorkerTest, Delays_OfTheTimeBeforeItsSilence_ExcuseNothing) {
  tell(State::kAlive);
  look(20);
  tell(State::kAlive, 0, 60'000'000);
  const WorkerHealth health = look_for(1'300);
  EXPECT_GE(health.unexcused_us, 1000 * kMs);
  EXPECT_EQ(health.unexcused_us, health.silent_us);
}

TEST_F(RemoteWorkerTest, Silence_OfANodeThatTellsNothing_HasNoExcuse) {
  const WorkerHealth health = look_for(1'300);
  EXPECT_EQ(health.process, Process::kUnknown);
  EXPECT_GE(health.unexcused_us, 1000 * kMs);
}

TEST_F(RemoteWorkerTest, Facts_OfAnotherNodeOrASessionThatIsOver_DoNotCount) {
  watch.tell("other", {{4711, State::kStopped, 100, 0}}, now);
  EXPECT_FALSE(look(20).has_value());
  tell(State::kStopped, 100);
  EXPECT_EQ(look(0)->process, Process::kStopped);
  watch.forget_told("n");
  EXPECT_EQ(look(20)->process, Process::kUnknown);
}

TEST_F(WorkerWatchTest, WorkerSilence_WithoutHeartbeats_IsNotCounted) {
  config.link_worker_heartbeat_ms = 0;
  greet();
  kill(pid, SIGSTOP);
  EXPECT_EQ(look_for(2000).silent_us, 0);
  EXPECT_TRUE(pinged.empty());
}

TEST_F(WorkerWatchTest, WorkerWatch_WhenNothingRuns_LooksLessOften) {
  greet();
  look(100, false);
  EXPECT_EQ(watch.next_look_us(), now + 100 * kMs);
  look(1, true);
  EXPECT_EQ(watch.next_look_us(), now + 19 * kMs);
  watch.forget(kPeer);
  EXPECT_FALSE(watch.next_look_us().has_value());
}

}  // namespace
}  // namespace holdfast::daemon::worker_watch_test
