// Goal: a start that finds fewer synced groups than there were reports it, and none does so without
// a loss: after the death of a process, a torn mark, a copy, a restored backup, a clean stop.
// Method: a store on a real disk; its log is cut, deleted or left at will; copies elsewhere.
#include "control/store/log_mark.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "control/store/backup.h"
#include "tests/store/temp_state.h"

namespace holdfast::store::log_mark_test {
namespace {

namespace fs = std::filesystem;

std::int64_t missing(Store& store) {
  const auto loss = store.log_loss().value();
  return loss ? loss->expected - loss->found : 0;
}

/// Copies the files of a state directory as they are now; a copy in place keeps the inode.
void copy_state_files(const std::string& from, const std::string& to) {
  for (const char* name : {"/control.db", "/control.db-wal", "/control.mark"}) {
    if (fs::exists(from + name)) {
      std::ifstream in(from + name, std::ios::binary);
      std::ofstream(to + name, std::ios::binary | std::ios::trunc) << in.rdbuf();
    } else {
      fs::remove(to + name);
    }
  }
  fs::remove(to + "/control.db-shm");
}

/// A state directory as a killed process leaves it: the log has `groups` synced groups that the
/// file lacks.
struct Killed {
  const TempState state{true};
  const TempState snapshot{true};
  explicit Killed(int groups) {
    auto store = open_store(state.dir());
    CHECK(store->raise_epoch(1).has_value());
    commit(*store, {request_row(1)});
    (void)store->checkpoint_all();
    for (int i = 0; i < groups; ++i) commit(*store, {request_row(10 + i)});
    copy_state_files(state.dir(), snapshot.dir());
    store.reset();
    copy_state_files(snapshot.dir(), state.dir());
  }
  std::string log() const { return state.db() + "-wal"; }
};

TEST(LogMark, LogLoss_WhenTheWriterIsKilled_IsNone) {
  for (const int groups : {0, 1, 7}) {
    const Killed killed(groups);
    for (int start = 0; start < 3; ++start) {
      auto store = open_store(killed.state.dir());
      EXPECT_EQ(missing(*store), 0) << groups;
      EXPECT_EQ(store->raise_epoch(5).value(), static_cast<std::uint64_t>(2 + start));
    }
  }
}

TEST(LogMark, LogLoss_WhenTheLogIsDeleted_IsReportedUntilAccepted) {
  const Killed killed(5);
  fs::remove(killed.log());
  {
    auto store = open_store(killed.state.dir());
    EXPECT_EQ(missing(*store), 5);
    EXPECT_EQ(store->find_by_id("r10").value().has_value(), false);
    (void)store->raise_epoch(77);
    commit(*store, {request_row(20)});
  }
  // The report stays until somebody accepts the loss, whatever is committed meanwhile.
  for (int i = 0; i < 2; ++i) {
    auto store = open_store(killed.state.dir());
    EXPECT_EQ(missing(*store), 5);
    EXPECT_EQ(store->log_loss().value()->at_ms, 77);
    (void)store->raise_epoch(78);
  }
  auto store = open_store(killed.state.dir());
  commit(*store, {core::PutFlag{kLogLostFlag, ""}});
  EXPECT_EQ(missing(*store), 0);
  store.reset();
  EXPECT_EQ(missing(*open_store(killed.state.dir())), 0);
}

// All of a new database is in its log: without it the file is another, empty one.
TEST(LogMark, LogLoss_WhenANewDatabaseHasNoLog_IsReported) {
  for (const bool emptied : {false, true}) {
    const TempState state{true};
    const TempState snapshot{true};
    {
      auto store = open_store(state.dir());
      ASSERT_EQ(store->raise_epoch(1).value(), 1u);
      for (int i = 0; i < 3; ++i) commit(*store, {request_row(10 + i)});
      copy_state_files(state.dir(), snapshot.dir());
    }
    copy_state_files(snapshot.dir(), state.dir());
    fs::remove(state.db() + "-wal");
    if (emptied) fs::resize_file(state.db(), 0);
    for (int start = 0; start < 2; ++start) {
      auto store = open_store(state.dir());
      EXPECT_EQ(missing(*store), 4) << start;
      EXPECT_EQ(store->raise_epoch(5).value(), static_cast<std::uint64_t>(2 + start));
    }
    auto store = open_store(state.dir());
    commit(*store, {core::PutFlag{kLogLostFlag, ""}});
    store.reset();
    EXPECT_EQ(missing(*open_store(state.dir())), 0);
  }
}

TEST(LogMark, LogLoss_WhenTheLogIsTruncatedOrDamaged_CountsLostGroups) {
  std::int64_t last = 100;
  int told = 0;
  for (const double share : {0.0, 0.3, 0.5, 0.7, 0.9, 0.999}) {
    const Killed killed(9);
    const auto bytes = static_cast<double>(fs::file_size(killed.log()));
    fs::resize_file(killed.log(), static_cast<std::uintmax_t>(bytes * share));
    auto store = open_store(killed.state.dir());
    const std::int64_t now = missing(*store);
    EXPECT_LE(now, last);
    EXPECT_GE(now, 1) << share;
    int there = 0;
    for (int i = 0; i < 9; ++i) {
      there += store->find_by_id("r" + std::to_string(10 + i)).value().has_value();
    }
    EXPECT_EQ(there, 9 - now);
    last = now;
    ++told;
  }
  EXPECT_EQ(told, 6);
  const Killed killed(9);
  const auto bytes = fs::file_size(killed.log());
  std::fstream file(killed.log(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(bytes / 2));
  file << std::string(50, '?');
  file.close();
  EXPECT_GT(missing(*open_store(killed.state.dir())), 0);
}

TEST(LogMark, Mark_WhenTorn_NeverClaimsMoreGroups) {
  const auto tear = [](const Killed& killed, int slot, int from) {
    const std::string path = log_mark_path(killed.state.dir());
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(slot * 4096 + from);
    file << "torn here";
  };
  for (const int slot : {0, 1}) {
    for (const int from : {0, 40, 60}) {
      const Killed killed(4);
      tear(killed, slot, from);
      EXPECT_EQ(missing(*open_store(killed.state.dir())), 0);
      const Killed cut(4);
      tear(cut, slot, from);
      fs::remove(cut.log());
      const std::int64_t told = missing(*open_store(cut.state.dir()));
      EXPECT_TRUE(told == 4 || told == 3) << told;
    }
  }
  const Killed killed(4);
  fs::remove(log_mark_path(killed.state.dir()));
  EXPECT_EQ(missing(*open_store(killed.state.dir())), 0) << "an older program left none";
}

TEST(LogMark, Mark_WhenTheDatabaseIsAnotherFile_ClaimsNothing) {
  const Killed killed(4);
  // A copy elsewhere, taken while the log was shorter, with the newest mark.
  const TempState other(true);
  copy_state_files(killed.snapshot.dir(), other.dir());
  fs::remove(other.db() + "-wal");
  EXPECT_EQ(missing(*open_store(other.dir())), 0);
  // A backup that is put in place is another database.
  const TempState third(true);
  const std::string copy = third.dir() + "/copy.db";
  {
    auto store = open_store(killed.state.dir());
    auto backup = store->begin_backup(copy).value();
    while (!backup->step().value()) {
    }
    for (int i = 0; i < 5; ++i) commit(*store, {request_row(40 + i)});
  }
  ASSERT_TRUE(restore_file(killed.state.dir(), copy, 5));
  auto store = open_store(killed.state.dir());
  EXPECT_EQ(missing(*store), 0);
  (void)store->raise_epoch(1);
  commit(*store, {request_row(50)});
  store.reset();
  EXPECT_EQ(missing(*open_store(killed.state.dir())), 0);
}

// Fences of a lost epoch must not be given again.
TEST(LogMark, Epoch_WhenItsLogIsLost_IsNotReused) {
  const Killed killed(0);
  {
    auto store = open_store(killed.state.dir());
    EXPECT_EQ(store->raise_epoch(5).value(), 2u);
    EXPECT_EQ(store->raise_epoch(5).value(), 3u);
    copy_state_files(killed.state.dir(), killed.snapshot.dir());
  }
  copy_state_files(killed.snapshot.dir(), killed.state.dir());
  fs::remove(killed.log());
  auto store = open_store(killed.state.dir());
  EXPECT_EQ(missing(*store), 2);
  EXPECT_EQ(store->raise_epoch(5).value(), 4u);
}

}  // namespace
}  // namespace holdfast::store::log_mark_test
