// Goal: a backup made while commits go on is whole; a check finds damage; a restore puts exactly
// the backup in place, refuses a running owner, and a crash at any moment of it leaves the old or
// the new database.
// Method: real SQLite. For the crashes a child process restores and gets SIGKILL before its n-th
// rename, unlink or fsync, for all n: those calls are interposed here.
#include "control/store/backup.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "control/store/disk.h"
#include "control/store/files.h"
#include "control/store/open.h"
#include "control/store/store.h"
#include "tests/store/temp_state.h"

namespace {

int g_calls_left = -1;                        // < 0: never
std::vector<std::string>* g_calls = nullptr;  // calls so far; nullptr: not recorded

void count_down(const char* what, const std::string& path) {
  if (g_calls_left >= 0 && g_calls_left-- == 0) kill(getpid(), SIGKILL);
  if (g_calls != nullptr) g_calls->push_back(std::string(what) + " " + path);
}

std::string path_of(int fd) {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), ignored).string();
}

}  // namespace

// Calls that change names or force bytes to the disk. The test program's own definitions come
// before libc's, for SQLite too.
extern "C" {

int rename(const char* from, const char* to) {
  count_down("rename", to);
  static const auto real =
      reinterpret_cast<int (*)(const char*, const char*)>(dlsym(RTLD_NEXT, "rename"));
  return real(from, to);
}

int unlink(const char* path) noexcept {
  count_down("unlink", path);
  static const auto real = reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_NEXT, "unlink"));
  return real(path);
}

int fsync(int fd) {
  count_down("sync", path_of(fd));
  static const auto real = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, "fsync"));
  return real(fd);
}

int fdatasync(int fd) {
  if (g_calls != nullptr) g_calls->push_back("sync " + path_of(fd));
  static const auto real = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, "fdatasync"));
  return real(fd);
}

}  // extern "C"

namespace holdfast::store::backup_test {
namespace {

constexpr core::Seq kOld = 40;  // rows in the backup
constexpr core::Seq kNew = 60;  // rows of the database that it replaces

void add_requests(Store& store, core::Seq from, core::Seq to) {
  for (core::Seq seq = from; seq <= to; ++seq) {
    commit(store, {request_row(seq), chunk(seq, 0, {1, 2, 3}), progress(seq, 3)});
  }
}

BackupReport backup_to(Store& store, const std::string& path) {
  auto backup = store.begin_backup(path);
  CHECK_MSG(backup.has_value(), "begin_backup");
  while (!backup.value()->step().value()) continue;
  return backup.value()->report();
}

/// Returns the number of requests in a state directory, which must open without an error.
core::Seq requests_in(const std::string& dir) {
  auto store = open_store(dir);
  return store->load().value().last_seq;
}

TEST(StoreBackup, Backup_WhenRowsAreCommittedBetweenSteps_IncludesThem) {
  const TempState state;
  auto store = open_store(state.dir());
  core::Seq seq = 0;
  for (int i = 0; i < 200; ++i) {  // long enough for several steps of 256 pages
    std::vector<core::RowChange> rows;
    for (int j = 0; j < 40; ++j) {
      rows.push_back(request_row(++seq));
      rows.push_back(chunk(seq, 0, std::vector<core::TokenId>(64, 7)));
      rows.push_back(progress(seq, 64));
    }
    commit(*store, rows, core::Durability::kNormal);
  }
  const std::string path = state.dir() + "/copy.db";
  auto backup = store->begin_backup(path);
  ASSERT_TRUE(backup) << backup.error().what;
  int steps = 0;
  for (;; ++steps) {
    const auto done = backup.value()->step();
    ASSERT_TRUE(done) << done.error().what;
    if (*done) break;
    EXPECT_NE(access(path.c_str(), F_OK), 0) << "it has its name before it is complete";
    commit(*store, {request_row(++seq)});
  }
  EXPECT_GT(steps, 2);
  const auto whole = check_file(path);
  ASSERT_TRUE(whole) << whole.error().what;
  EXPECT_EQ(whole->requests, seq);
  EXPECT_EQ(whole->chunks, 200 * 40);
}

TEST(StoreBackup, Backup_WhenAborted_LeavesNoFileAndNeverOverwrites) {
  const TempState state;
  auto store = open_store(state.dir());
  add_requests(*store, 1, 3);
  const std::string path = state.dir() + "/copy.db";
  { auto aborted = store->begin_backup(path); }
  EXPECT_NE(access((path + ".part").c_str(), F_OK), 0);
  backup_to(*store, path);
  const auto again = store->begin_backup(path);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::kIo);
  const std::string nowhere = state.dir() + "/none/copy.db";
  const auto lost = store->begin_backup(nowhere);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Errc::kIo);
  EXPECT_EQ(lost.error().what.find("backup to " + nowhere + ": unable to open"), 0u)
      << lost.error().what;
}

TEST(StoreBackup, Backup_WhileAReaderLocksTheCopy_WaitsAndThenCompletes) {
  const TempState state;
  auto store = open_store(state.dir());
  add_requests(*store, 1, 3);
  const std::string path = state.dir() + "/copy.db";
  auto backup = store->begin_backup(path).value();
  sqlite3* reader = nullptr;
  ASSERT_EQ(sqlite3_open((path + ".part").c_str(), &reader), SQLITE_OK);
  ASSERT_TRUE(exec(reader, "BEGIN; SELECT count(*) FROM sqlite_schema"));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(backup->step().value());
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  sqlite3_close(reader);
  while (!backup->step().value()) continue;
  EXPECT_EQ(check_file(path).value().requests, 3);
}

// The folder is made after the backup began, which found the name free.
TEST(StoreBackup, Backup_WhenAFolderTakesItsName_FailsAndRemovesThePartialFile) {
  const TempState state;
  auto store = open_store(state.dir());
  add_requests(*store, 1, 3);
  const std::string path = state.dir() + "/copy.db";
  {
    auto backup = store->begin_backup(path).value();
    std::filesystem::create_directory(path);
    Result<bool> done = backup->step();
    while (done && !done.value()) done = backup->step();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::kIo);
    EXPECT_NE(done.error().what.find("rename " + path + ".part to " + path), std::string::npos)
        << done.error().what;
  }
  EXPECT_TRUE(std::filesystem::is_directory(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

TEST(StoreBackup, Check_WhenAPromptOrPageIsDamaged_FindsIt) {
  const TempState state;
  const std::string path = state.dir() + "/copy.db";
  {
    auto store = open_store(state.dir());
    add_requests(*store, 1, 5);
    backup_to(*store, path);
  }
  ASSERT_TRUE(check_file(path));
  std::string bytes;
  {
    std::ifstream in(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto damaged_at = [&](std::size_t at) {
    std::string copy = bytes;
    copy[at] = static_cast<char>(copy[at] ^ 0x41);
    const std::string other = state.dir() + "/damaged.db";
    std::ofstream(other, std::ios::binary) << copy;
    return check_file(other);
  };
  const std::string three_ids("\1\0\0\0\2\0\0\0\3\0\0\0", 12);
  const std::size_t tokens = bytes.find(three_ids);
  ASSERT_NE(tokens, std::string::npos);
  const auto chunk_damage = damaged_at(tokens + 4);
  ASSERT_FALSE(chunk_damage);
  EXPECT_EQ(chunk_damage.error().code, Errc::kCorrupt);
  EXPECT_NE(chunk_damage.error().what.find("checksum"), std::string::npos);
  EXPECT_FALSE(damaged_at(4096 + 3));  // the cell count of the second page
  EXPECT_FALSE(damaged_at(2));         // the header
}

TEST(StoreBackup, Check_WhenRowsAreDamaged_CountsRowsAndNamesTheDamage) {
  const TempState state;
  const std::string path = state.dir() + "/copy.db";
  {
    auto store = open_store(state.dir());
    add_requests(*store, 1, 7);
    core::InsertChunk second = chunk(7, 5, {4, 5});
    second.choice = 1;
    commit(*store, {second});
    backup_to(*store, path);
  }
  const CheckReport whole = check_file(path).value();
  EXPECT_EQ(whole.requests, 7);
  EXPECT_EQ(whole.payloads, 7);
  EXPECT_EQ(whole.chunks, 8);
  EXPECT_EQ(whole.schema, schema_version());
  const auto damage = [&](const std::string& sql) {
    const std::string other = state.dir() + "/damaged.db";
    std::filesystem::copy_file(path, other, std::filesystem::copy_options::overwrite_existing);
    run_sql(other, sql);
    const auto checked = check_file(other);
    return checked ? std::string("nothing") : checked.error().what;
  };
  const auto says = [&](const std::string& sql, const std::string& text) {
    const std::string what = damage(sql);
    EXPECT_NE(what.find(text), std::string::npos) << what;
    EXPECT_NE(what.find("damaged.db"), std::string::npos) << what;
  };
  says("UPDATE tail SET crc = crc + 1 WHERE choice = 1",
       "tokens of request row 7, choice 1, from index 5: the checksum differs");
  says("UPDATE payloads SET crc = crc + 1 WHERE seq = 3",
       "prompts of request row 3: the checksum differs");
  says("PRAGMA application_id = 7", "it is not a database of this program");
  const std::string newer = std::to_string(schema_version() + 1);
  says("PRAGMA user_version = " + newer,
       "schema " + newer + ", this one knows " + std::to_string(schema_version()));
  says("PRAGMA foreign_keys = OFF; DELETE FROM requests WHERE seq = 2", "refer to rows not there");
  EXPECT_EQ(check_file(state.dir() + "/none").error().code, Errc::kIo);
}

TEST(StoreBackup, Backup_WhenFinished_IsPrivateAndSyncedBeforeTheRename) {
  const TempState state;
  const std::string path = state.dir() + "/copy.db";
  auto store = open_store(state.dir());
  add_requests(*store, 1, 3);
  std::vector<std::string> calls;
  g_calls = &calls;
  const BackupReport report = backup_to(*store, path);
  g_calls = nullptr;
  ASSERT_GE(calls.size(), 4u);
  EXPECT_EQ(
      std::vector<std::string>(calls.end() - 4, calls.end()),
      (std::vector<std::string>{"sync " + path + ".part", "rename " + path, "sync " + state.dir(),
                                "unlink " + state.dir() + "/control.backup-0"}))
      << "what names an unfinished copy goes last";
  struct stat st {};
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  EXPECT_EQ(report.path, path);
  EXPECT_EQ(report.bytes, st.st_size);
  EXPECT_EQ(report.pages * 4096, st.st_size);
  store.reset();
  calls.clear();
  g_calls = &calls;
  const bool restored = restore_file(state.dir(), path, 5).has_value();
  g_calls = nullptr;
  ASSERT_TRUE(restored);
  const std::string target = state.dir() + "/control.db";
  ASSERT_GE(calls.size(), 4u);
  EXPECT_EQ(std::vector<std::string>(calls.end() - 4, calls.end()),
            (std::vector<std::string>{"sync " + target + ".restoring", "sync " + state.dir(),
                                      "rename " + target, "sync " + state.dir()}));
}

TEST(StoreBackup, DiskSync_WhenFilesAndFoldersAreSynced_CallsFsync) {
  const TempState state;
  const std::string path = state.dir() + "/some";
  std::ofstream(path) << "text";
  std::vector<std::string> calls;
  g_calls = &calls;
  const bool done = sync_file(path) && real_disk().rewrite(path) && sync_directory_of(path);
  g_calls = nullptr;
  EXPECT_TRUE(done);
  EXPECT_EQ(calls,
            (std::vector<std::string>{"sync " + path, "sync " + path, "sync " + state.dir()}));
}

TEST(StoreBackup, Restore_WhenTheBackupIsCorrupt_LeavesNoTemporaryFiles) {
  const TempState state;
  const std::string bad = state.dir() + "/bad.db";
  {
    auto store = open_store(state.dir());
    add_requests(*store, 1, 2);
    backup_to(*store, bad);
  }
  run_sql(bad, "UPDATE payloads SET crc = crc + 1");
  const auto refused = restore_file(state.dir(), bad, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kCorrupt);
  for (const auto& entry : std::filesystem::directory_iterator(state.dir())) {
    const std::string name = entry.path().filename().string();
    EXPECT_EQ(name.find("restor"), std::string::npos) << name;
  }
  EXPECT_EQ(requests_in(state.dir()), 2);
}

TEST(StoreBackup, Restore_IntoAnEmptyDirectory_SavesNoPreviousDatabase) {
  const TempState source;
  const TempState state;
  const std::string path = source.dir() + "/copy.db";
  std::uint64_t epoch = 0;
  {
    auto store = open_store(source.dir());
    add_requests(*store, 1, 3);
    epoch = store->raise_epoch(1).value();
    backup_to(*store, path);
  }
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  const RestoreReport report = restore_file(state.dir(), path, 9).value();
  EXPECT_EQ(report.previous_dir, "");
  EXPECT_EQ(report.epoch, epoch + 1);
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(state.db()).permissions(),
            perms::owner_read | perms::owner_write)
      << "as private as any other, whoever could read the backup";
  EXPECT_EQ(requests_in(state.dir()), 3);
  EXPECT_EQ(read_sql(state.db(), "SELECT started_ms FROM epochs WHERE program='restore'"), "9");
}

// A corrupt database is the case that restores exist for.
TEST(StoreBackup, Restore_OverACorruptDatabase_SavesAndReplacesIt) {
  const TempState source;
  const TempState state;
  const std::string path = source.dir() + "/copy.db";
  std::uint64_t epoch = 0;
  {
    auto store = open_store(source.dir());
    add_requests(*store, 1, 3);
    epoch = store->raise_epoch(1).value();
    backup_to(*store, path);
  }
  const std::string rubbish(20'000, 'x');
  std::filesystem::create_directory(state.dir() + "/before-restore-9");  // of a try that was killed
  std::ofstream(state.db(), std::ios::binary) << rubbish;
  const RestoreReport report = restore_file(state.dir(), path, 9).value();
  EXPECT_EQ(report.epoch, epoch + 1) << "the old one's cannot be told";
  std::ifstream previous_db(report.previous_dir + "/control.db", std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(previous_db), {}), rubbish);
  EXPECT_EQ(requests_in(state.dir()), 3);
}

TEST(StoreBackup, Restore_WhenTheBackupIsMissing_ChangesNothing) {
  const TempState state;
  {
    auto store = open_store(state.dir());
    add_requests(*store, 1, 2);
  }
  const std::string none = state.dir() + "/none.db";
  const auto done = restore_file(state.dir(), none, 9);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::kIo);
  EXPECT_EQ(done.error().what.find("copy " + none + " to "), 0u) << done.error().what;
  EXPECT_NE(done.error().what.find("No such file"), std::string::npos) << done.error().what;
  EXPECT_EQ(requests_in(state.dir()), 2);
}

TEST(StoreBackup, Restore_OverADatabaseWithALog_SavesItsLogToo) {
  const TempState source;
  const TempState state;
  const std::string path = source.dir() + "/copy.db";
  {
    auto store = open_store(source.dir());
    add_requests(*store, 1, 3);
    backup_to(*store, path);
  }
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto store = open_store(state.dir());
    add_requests(*store, 1, 9);
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  const RestoreReport report = restore_file(state.dir(), path, 9).value();
  EXPECT_EQ(check_file(report.previous_dir + "/control.db").value().requests, 9);
  EXPECT_EQ(requests_in(state.dir()), 3);
}

TEST(StoreBackup, Restore_WhenTheStoreIsOwnedOrTheFileIsNoBackup_IsRefused) {
  const TempState state;
  const std::string path = state.dir() + "/copy.db";
  auto store = open_store(state.dir());
  add_requests(*store, 1, 2);
  backup_to(*store, path);
  const auto owned = restore_file(state.dir(), path, 1);
  ASSERT_FALSE(owned);
  EXPECT_EQ(owned.error().code, Errc::kConflict);
  EXPECT_NE(owned.error().what.find(std::to_string(getpid())), std::string::npos);
  store.reset();
  std::ofstream(state.dir() + "/text") << "no database";
  EXPECT_FALSE(restore_file(state.dir(), state.dir() + "/text", 1));
  EXPECT_EQ(requests_in(state.dir()), 2);
}

TEST(StoreBackup, Restore_AfterSuccess_HasTheBackupsRowsAndALaterEpoch) {
  const TempState state;
  const std::string path = state.dir() + "/copy.db";
  std::uint64_t epoch = 0;
  {
    auto store = open_store(state.dir());
    add_requests(*store, 1, kOld);
    backup_to(*store, path);
    add_requests(*store, kOld + 1, kNew);
    epoch = store->raise_epoch(1).value();
  }
  const auto report = restore_file(state.dir(), path, 5);
  ASSERT_TRUE(report) << report.error().what;
  EXPECT_EQ(report->epoch, epoch + 1);
  struct stat st {};
  ASSERT_EQ(stat((state.dir() + "/control.db").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u) << "prompts and answers are nobody else's business";
  EXPECT_EQ(requests_in(state.dir()), kOld);
  EXPECT_EQ(check_file(report->previous_dir + "/control.db").value().requests, kNew);
  auto store = open_store(state.dir());
  EXPECT_GT(store->raise_epoch(2).value(), report->epoch);
}

/// Restores in a child that dies before its n-th interposed call. Returns true if it finished.
bool restore_until(const std::string& dir, const std::string& file, int n) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    g_calls_left = n;
    const auto done = restore_file(dir, file, 7);
    g_calls_left = -1;
    if (!done) std::fprintf(stderr, "restore: %s\n", done.error().what.c_str());
    _exit(done ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return false;
  EXPECT_EQ(WEXITSTATUS(status), 0) << "restore failed by itself";
  return true;
}

TEST(StoreBackup, Restore_WhenKilledAtAnyStep_LeavesOldOrNewDatabaseWhole) {
  const TempState source;
  const std::string path = source.dir() + "/copy.db";
  {
    auto store = open_store(source.dir());
    add_requests(*store, 1, kOld);
    backup_to(*store, path);
  }
  int crashes = 0;
  int old_ones = 0;
  for (bool done = false; !done; ++crashes) {
    ASSERT_LT(crashes, 100);
    const TempState state(true);
    if (fork() == 0) {  // the owner is killed, so the log is not checkpointed
      auto store = open_store(state.dir());
      add_requests(*store, 1, kNew);
      kill(getpid(), SIGKILL);
    }
    wait(nullptr);
    ASSERT_GT(std::filesystem::file_size(state.db() + "-wal"), 0u);
    done = restore_until(state.dir(), path, crashes);
    const core::Seq found = requests_in(state.dir());
    EXPECT_TRUE(found == kOld || found == kNew) << "after crash " << crashes << ": " << found;
    EXPECT_TRUE(!done || found == kOld);
    old_ones += found == kNew;
    // Whatever the crash left, the next try succeeds.
    EXPECT_TRUE(restore_until(state.dir(), path, -1));
    EXPECT_EQ(requests_in(state.dir()), kOld);
  }
  EXPECT_GT(crashes, 8);
  EXPECT_GT(old_ones, 3);
}

}  // namespace
}  // namespace holdfast::store::backup_test
