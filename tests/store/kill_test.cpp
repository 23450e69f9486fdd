// Goal: acknowledged groups are there after the writer was killed, and a group is there as a whole
// or not at all.
// Method: a forked writer commits groups and writes the last committed number to a pipe after each
// (its acknowledgement); it gets SIGKILL at a random moment, with checkpoints in between. The file
// is then opened again and compared. Many cycles on one directory, so that recoveries accumulate.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <utility>

#include "control/store/store.h"
#include "shared/base/crash_point.h"
#include "tests/store/temp_state.h"

namespace holdfast::store::kill_test {
namespace {

constexpr int kCycles = 60;

[[noreturn]] void write_until_killed(const std::string& dir, core::Seq first, int acks) {
  auto store = open_store(dir);
  for (core::Seq seq = first;; ++seq) {
    // A request and its tokens in one group; every third is only NORMAL, as groups of tokens are.
    std::vector<core::RowChange> rows = {request_row(seq, "k" + std::to_string(seq))};
    std::int64_t index = 0;
    for (int i = 0; i < 5; ++i) {
      rows.push_back(chunk(seq, index, {static_cast<core::TokenId>(seq), i}));
      index += 2;
      rows.push_back(progress(seq, index));
    }
    commit(*store, rows, seq % 3 == 0 ? core::Durability::kNormal : core::Durability::kFull);
    if (write(acks, &seq, sizeof seq) != sizeof seq) _exit(1);
    if (seq % 7 == 0) CHECK(store->checkpoint_all());
  }
}

core::Seq kill_one(const std::string& dir, core::Seq first, std::int64_t after_us) {
  int pipe_fds[2];
  CHECK(pipe(pipe_fds) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    close(pipe_fds[0]);
    write_until_killed(dir, first, pipe_fds[1]);
  }
  close(pipe_fds[1]);
  core::Seq acknowledged = 0;
  core::Seq seq = 0;
  // A slow build needs a while until its first group.
  if (read(pipe_fds[0], &seq, sizeof seq) == sizeof seq) acknowledged = seq;
  usleep(static_cast<useconds_t>(after_us));
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself";
  while (read(pipe_fds[0], &seq, sizeof seq) == sizeof seq) acknowledged = seq;
  close(pipe_fds[0]);
  return acknowledged;
}

TEST(StoreCrash, Store_WhenKilledAtACrashPoint_OpensAgain) {
  const std::pair<CrashPoint, core::Seq> points[] = {
      // and the requests that may be there
      {CrashPoint::kDaemonStartLocked, 0},     {CrashPoint::kDaemonStartOpened, 0},
      {CrashPoint::kDaemonMigrateBefore, 0},   {CrashPoint::kDaemonMigrateAfter, 0},
      {CrashPoint::kDaemonCommitInside, 0},    {CrashPoint::kDaemonCheckpointBefore, 2},
      {CrashPoint::kDaemonCheckpointAfter, 2},
  };
  for (const auto& [point, requests] : points) {
    const std::string name(crash_points()[static_cast<std::size_t>(point)].name);
    const TempState state(true);
    // A new database has a checkpoint of its own, until its first commit.
    if (requests > 0) commit(*open_store(state.dir()), {request_row(1)});
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      setenv("HOLDFAST_CRASH_AT", name.c_str(), 1);
      arm_crash_points("daemon");
      auto store = open_store(state.dir());
      commit(*store, {request_row(requests > 0 ? 2 : 1)});
      _exit(store->checkpoint_all() ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << name;
    EXPECT_EQ(open_store(state.dir())->load().value().last_seq, requests) << name;
  }
}

TEST(StoreKill, CommitGroup_WhenTheWriterIsKilled_IsWholeAndNotLost) {
  const TempState state;
  std::mt19937_64 random(20260101);
  core::Seq last = 0;  // of the file
  for (int cycle = 0; cycle < kCycles; ++cycle) {
    const core::Seq acknowledged =
        kill_one(state.dir(), last + 1, 1'000 + static_cast<std::int64_t>(random() % 60'000));
    auto store = open_store(state.dir());
    const core::Boot boot = store->load().value();
    ASSERT_GE(boot.last_seq, acknowledged) << "an acknowledged request is lost, cycle " << cycle;
    ASSERT_LE(boot.last_seq, std::max(acknowledged, last) + 1);
    ASSERT_EQ(static_cast<core::Seq>(boot.requests.size()), boot.last_seq);
    for (core::Seq seq = last + 1; seq <= boot.last_seq; ++seq) {
      const core::BootRequest& r = boot.requests[static_cast<std::size_t>(seq - 1)];
      ASSERT_EQ(r.row.seq, seq);
      ASSERT_EQ(r.choices[0].ids.size(), 10u) << "half a group, cycle " << cycle;
      ASSERT_TRUE(store->find_by_key("t", "k" + std::to_string(seq)).value().has_value());
    }
    last = boot.last_seq;
  }
  EXPECT_GT(last, 0);
}

}  // namespace
}  // namespace holdfast::store::kill_test
