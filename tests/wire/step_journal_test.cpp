// Goal: the process that reaps a dead worker learns the content of the step that ran, and never
// takes another process's journal for this one's.
// Method: a forked child writes and gets SIGKILL in the middle; the file is read afterwards.
#include "shared/base/step_journal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

namespace holdfast::step_journal_test {
namespace {

class StepJournalTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/holdfast-journal-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    dir_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string path() const { return dir_ + "/step"; }

  /// Runs `work` in a child that is killed at its end. Returns its pid.
  template <class Work>
  pid_t die_after(Work work) {
    const pid_t child = fork();
    if (child == 0) {
      auto journal = StepJournal::create(path());
      if (journal) work(**journal);
      kill(getpid(), SIGKILL);
    }
    waitpid(child, nullptr, 0);
    return child;
  }

  std::string dir_;
};

TEST_F(StepJournalTest, StepJournal_WhenKilledInAStep_ListsItsSequences) {
  const pid_t pid = die_after([](StepJournal& journal) {
    journal.begin({1, 2});
    journal.end();
    journal.begin({step_mark("r1", 0), step_mark("r2", 3), 7});
  });
  const auto record = read_step_journal(path(), pid);
  ASSERT_TRUE(record.has_value());
  EXPECT_TRUE(record->in_step);
  EXPECT_TRUE(record->complete);
  EXPECT_EQ(record->marks, (std::vector<std::uint64_t>{step_mark("r1", 0), step_mark("r2", 3), 7}));
}

TEST_F(StepJournalTest, StepJournal_WhenKilledBetweenSteps_ListsNothing) {
  const pid_t pid = die_after([](StepJournal& journal) {
    journal.begin({1, 2});
    journal.end();
  });
  const auto record = read_step_journal(path(), pid);
  ASSERT_TRUE(record.has_value());
  EXPECT_FALSE(record->in_step);
  EXPECT_TRUE(record->marks.empty());
}

TEST_F(StepJournalTest, StepJournal_WhenStepHasTooManySequences_IsIncomplete) {
  const pid_t pid =
      die_after([](StepJournal& journal) { journal.begin(std::vector<std::uint64_t>(5000, 9)); });
  const auto record = read_step_journal(path(), pid);
  ASSERT_TRUE(record.has_value());
  EXPECT_FALSE(record->complete);
}

TEST_F(StepJournalTest, StepJournal_WhenOfAnotherPidOrDamaged_IsNotRead) {
  EXPECT_FALSE(read_step_journal(path(), 1).has_value());
  const pid_t pid = die_after([](StepJournal& journal) { journal.begin({1}); });
  EXPECT_FALSE(read_step_journal(path(), pid + 1).has_value());
  std::filesystem::resize_file(path(), 100);
  EXPECT_FALSE(read_step_journal(path(), pid).has_value());
}

TEST_F(StepJournalTest, StepMark_WithAnotherRequestOrChoice_Differs) {
  EXPECT_NE(step_mark("a", 0), step_mark("a", 1));
  EXPECT_NE(step_mark("a", 0), step_mark("b", 0));
  EXPECT_EQ(step_mark("a", 1), step_mark("a", 1));
}

}  // namespace
}  // namespace holdfast::step_journal_test
