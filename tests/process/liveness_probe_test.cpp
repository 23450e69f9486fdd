// Goal: a process counts as hung only for time in which it owed an answer and could have given one.
// Method: the supervisor's probe over a child of this test that answers on command; the clock is
// set by hand.
#include "ops/serve/liveness_probe.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "shared/base/probe.h"

namespace holdfast::cli::liveness_probe_test {
namespace {

constexpr std::int64_t kPeriodMs = 1'000;

struct LivenessProbeTest : testing::Test {
  LivenessProbe probe;
  pid_t pid = 0;
  int child_end = -1;  // a copy: this test answers for the child
  std::int64_t now_ms = 1'000'000;

  void SetUp() override {
    const auto end = probe.prepare();
    ASSERT_TRUE(end.has_value());
    child_end = dup(end.value());
    pid = fork();
    if (pid == 0) {
      while (true) pause();
    }
    while (!sleeps()) usleep(1000);  // a sleeping process is not held up
    probe.started(pid);
    look();
  }
  void TearDown() override {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    close(child_end);
  }
  bool sleeps() const {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    std::getline(file, line);
    return line.find(") S ") != std::string::npos;
  }
  void look(std::int64_t after_ms = kPeriodMs) {
    now_ms += after_ms;
    probe.look(now_ms, kPeriodMs);
  }
  /// Answers for the child. False: no probe came.
  bool answer() const {
    char byte = 0;
    return read(child_end, &byte, 1) == 1 && write(child_end, &byte, 1) == 1;
  }
};

TEST_F(LivenessProbeTest, SilentTime_UntilTheFirstAnswer_IsZero) {
  for (int i = 0; i < 100; ++i) look();
  EXPECT_EQ(probe.silent_ms(), 0);
}

TEST_F(LivenessProbeTest, SilentTime_WhenTheProcessAnswers_IsResetToZero) {
  EXPECT_TRUE(answer());
  look();
  for (int i = 0; i < 4; ++i) look();
  EXPECT_GE(probe.silent_ms(), 3'900);
  EXPECT_TRUE(answer());
  EXPECT_FALSE(answer()) << "one question at a time";
  look();
  EXPECT_EQ(probe.silent_ms(), 0);
}

TEST_F(LivenessProbeTest, SilentTime_WhenALookComesLate_GrowsByOnePeriod) {
  EXPECT_TRUE(answer());
  look();
  look();
  const std::int64_t before = probe.silent_ms();
  look(60'000);
  EXPECT_LE(probe.silent_ms() - before, kPeriodMs * 5 / 4);
}

TEST_F(LivenessProbeTest, SilentTime_WhileTheProcessIsStopped_Counts) {
  EXPECT_TRUE(answer());
  look();
  kill(pid, SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  for (int i = 0; i < 3; ++i) look();
  EXPECT_EQ(probe.silent_ms(), 3 * kPeriodMs);
}

TEST(ProbeAnswer, ProbeAnswer_WhenProbed_AnswersAndHidesItsSocketFromChildren) {
  LivenessProbe probe;
  const auto end = probe.prepare();
  ASSERT_TRUE(end.has_value());
  const int inherited = dup(end.value());
  setenv(kProbeFdVariable, std::to_string(inherited).c_str(), 1);
  ProbeAnswer answerer;
  EXPECT_EQ(answerer.fd(), inherited);
  EXPECT_EQ(std::getenv(kProbeFdVariable), nullptr);
  probe.started(getpid());
  probe.look(1'000, kPeriodMs);
  answerer.answer();
  probe.look(2'000, kPeriodMs);
  pollfd question{inherited, POLLIN, 0};
  EXPECT_EQ(poll(&question, 1, 0), 1) << "it was asked again";
  const ProbeAnswer nobody_asks;
  EXPECT_EQ(nobody_asks.fd(), -1);
}

}  // namespace
}  // namespace holdfast::cli::liveness_probe_test
