// Goal: a call of the operating system that fails gives an error with its code, the file and the
// cause, and nothing is lost or half done by it: neither in a commit or a checkpoint, nor in a
// backup, a restore, the lock or a start. Method: the calls are interposed here, for SQLite too,
// and fail for one file while a test says so.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "control/store/backup.h"
#include "control/store/disk.h"
#include "control/store/sqlite.h"
#include "control/store/store.h"
#include "tests/store/temp_state.h"

namespace {

struct Fault {
  std::string call;
  std::string file;  // end of its path
  int error = 0;
  int times = 0;
  off_t at = -1;  // fails from this offset on; -1: anywhere
};
Fault* g_fault = nullptr;

bool path_fails(const char* call, const std::string& path) {
  if (g_fault == nullptr || g_fault->call != call || !path.ends_with(g_fault->file)) return false;
  if (g_fault->times-- <= 0) return false;
  errno = g_fault->error;
  return true;
}

bool fails(const char* call, int fd, off_t at = -1) {
  if (g_fault == nullptr || (g_fault->at >= 0 && g_fault->at != at)) return false;
  std::error_code ignored;
  const auto link = "/proc/self/fd/" + std::to_string(fd);
  return path_fails(call, std::filesystem::read_symlink(link, ignored).string());
}

/// Makes a call fail while it lives.
class Failing {
 public:
  Failing(const char* call, const char* file, int error, int times = INT_MAX, off_t at = -1)
      : fault_{call, file, error, times, at} {
    g_fault = &fault_;
  }
  ~Failing() { g_fault = nullptr; }
  Failing(const Failing&) = delete;

 private:
  Fault fault_;
};

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// The test program's own definitions come before libc's.
extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  static const auto real = next<int(const char*, int, ...)>("open");
  if (path_fails("empty", path)) return real("/dev/null", flags, mode);
  return path_fails("open", path) ? -1 : real(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  static const auto real = next<int(const char*, int, ...)>("open64");
  return path_fails("open64", path) ? -1 : real(path, flags, mode);
}

ssize_t pread(int fd, void* to, size_t bytes, off_t at) {
  static const auto real = next<ssize_t(int, void*, size_t, off_t)>("pread");
  return fails("pread", fd, at) ? -1 : real(fd, to, bytes, at);
}

ssize_t pread64(int fd, void* to, size_t bytes, off64_t at) {
  static const auto real = next<ssize_t(int, void*, size_t, off64_t)>("pread64");
  return fails("pread", fd, at) ? -1 : real(fd, to, bytes, at);
}

ssize_t pwrite(int fd, const void* from, size_t bytes, off_t at) {
  static const auto real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return fails("pwrite", fd, at) ? -1 : real(fd, from, bytes, at);
}

ssize_t pwrite64(int fd, const void* from, size_t bytes, off64_t at) {
  static const auto real = next<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  return fails("pwrite", fd, at) ? -1 : real(fd, from, bytes, at);
}

int fsync(int fd) {
  static const auto real = next<int(int)>("fsync");
  return fails("sync", fd) ? -1 : real(fd);
}

int fdatasync(int fd) {
  static const auto real = next<int(int)>("fdatasync");
  return fails("sync", fd) ? -1 : real(fd);
}

int ftruncate(int fd, off_t size) noexcept {
  static const auto real = next<int(int, off_t)>("ftruncate");
  return fails("ftruncate", fd) ? -1 : real(fd, size);
}

int flock(int fd, int operation) noexcept {
  static const auto real = next<int(int, int)>("flock");
  return fails("flock", fd) ? -1 : real(fd, operation);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = next<int(const char*, mode_t)>("mkdir");
  return path_fails("mkdir", path) ? -1 : real(path, mode);
}

int rename(const char* from, const char* to) {
  static const auto real = next<int(const char*, const char*)>("rename");
  return path_fails("rename", to) ? -1 : real(from, to);
}

}  // extern "C"

namespace holdfast::store::faults_test {
namespace {

using core::Durability;

/// Expects an error with this code that names all of `texts`.
template <class T>
void expect_error(const Result<T>& result, Errc code, const std::vector<std::string>& texts) {
  ASSERT_FALSE(result);
  EXPECT_EQ(errc_name(result.error().code), errc_name(code)) << result.error().what;
  for (const std::string& text : texts) {
    EXPECT_NE(result.error().what.find(text), std::string::npos) << result.error().what;
  }
}

Result<void> add(Store& store, core::Seq seq, Durability durability = Durability::kFull) {
  return store.apply(std::vector<core::RowChange>{request_row(seq)}, durability);
}

core::Seq requests_in(const std::string& dir) {
  return open_store(dir)->load().value().last_seq;
}

bool leftovers_in(const std::string& dir, const std::string& part) {
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().filename().string().find(part) != std::string::npos) return true;
  }
  return false;
}

// ---- commits and checkpoints

// The kernel may call the lost pages clean now, so no later sync proves anything: a checkpoint
// would move into the file what a power failure takes away, or what was never on the disk.
TEST(StoreFaults, Commit_WhenFsyncFails_RefusesAllLaterWrites) {
  const TempState state;
  std::uintmax_t file_bytes = 0;
  std::uintmax_t log_bytes = 0;
  {
    auto store = open_store(state.dir());
    commit(*store, {request_row(1)});
    {
      const Failing failing("sync", "/control.db-wal", EIO);
      expect_error(add(*store, 2), Errc::kStorage, {"commit: ", "COMMIT", "disk I/O error"});
    }
    file_bytes = std::filesystem::file_size(state.db());
    log_bytes = std::filesystem::file_size(state.db() + "-wal");
    expect_error(add(*store, 3), Errc::kStorage, {"an earlier I/O error"});
    EXPECT_TRUE(store->checkpoint_if_due(true));
    EXPECT_TRUE(store->checkpoint_all());
  }
  EXPECT_EQ(std::filesystem::file_size(state.db()), file_bytes) << "not by closing it either";
  ASSERT_TRUE(std::filesystem::exists(state.db() + "-wal"));
  EXPECT_EQ(std::filesystem::file_size(state.db() + "-wal"), log_bytes);
  auto store = open_store(state.dir());
  EXPECT_TRUE(store->find_by_id("r1").value().has_value());
  EXPECT_FALSE(store->find_by_id("r3").value().has_value());
}

TEST(StoreFaults, Open_WhenMigrationOrEpochSyncFails_WritesNothingMore) {
  for (const bool migrates : {true, false}) {
    const TempState state;
    if (!migrates) open_store(state.dir()).reset();
    {
      OpenOptions options;
      options.state_dir = state.dir();
      const Failing failing("sync", "/control.db-wal", EIO, 1);  // the next sync would succeed
      auto store = Store::open(options);
      if (migrates) {
        expect_error(store, Errc::kStorage, {"migrate " + state.db(), "COMMIT"});
      } else {
        expect_error(store.value()->raise_epoch(1), Errc::kStorage, {"COMMIT"});
      }
    }
    ASSERT_TRUE(std::filesystem::exists(state.db() + "-wal")) << migrates;
    EXPECT_GT(std::filesystem::file_size(state.db() + "-wal"), 0u) << migrates;
    EXPECT_GE(open_store(state.dir())->raise_epoch(1).value(), 1u);
  }
}

TEST(StoreFaults, Checkpoint_WhenTheDiskIsFull_LeavesAllInTheLog) {
  const TempState state;
  {
    auto store = open_store(state.dir());
    commit(*store, {request_row(1)});
    const std::int64_t pages = store->wal_pages();
    {
      const Failing failing("pwrite", "/control.db", ENOSPC);
      EXPECT_TRUE(store->checkpoint_all());
    }
    EXPECT_EQ(store->wal_pages(), pages);
    EXPECT_TRUE(add(*store, 2)) << "the service goes on";
    EXPECT_TRUE(store->checkpoint_all());
    EXPECT_EQ(store->wal_pages(), 0);
  }
  EXPECT_EQ(requests_in(state.dir()), 2);
}

TEST(StoreFaults, Checkpoint_WhenItFailsWithAnIoError_IsTheLastAndTheLogHasAll) {
  struct Case {
    const char* call;
    const char* file;
  };
  for (const Case& c : {Case{"pwrite", "/control.db"}, Case{"sync", "/control.db"},
                        Case{"sync", "/control.db-wal"}}) {
    const TempState state;
    {
      auto store = open_store(state.dir());
      ASSERT_TRUE(add(*store, 1, Durability::kNormal));
      {
        const Failing failing(c.call, c.file, EIO);
        expect_error(store->checkpoint_all(), Errc::kStorage, {"checkpoint: ", "disk I/O error"});
      }
      expect_error(add(*store, 2), Errc::kStorage, {"an earlier I/O error"});
      EXPECT_TRUE(store->checkpoint_if_due(true));
      EXPECT_TRUE(store->checkpoint_all());
    }
    EXPECT_GT(std::filesystem::file_size(state.db() + "-wal"), 0u) << c.call << " " << c.file;
    EXPECT_EQ(requests_in(state.dir()), 1) << c.call << " " << c.file;
  }
}

TEST(StoreFaults, Load_WhenAReadFails_ReturnsAnErrorNotADamagedRequest) {
  struct Case {
    int error;
    Errc code;
    const char* says;
  };
  // SQLite takes the first for a broken disk, the other one not.
  for (const Case& c : {Case{EIO, Errc::kCorrupt, "database disk image is malformed"},
                        Case{ESTALE, Errc::kStorage, "disk I/O error"}}) {
    const TempState state;
    {
      auto store = open_store(state.dir());
      commit(*store, {request_row(1), request_row(2)});
      ASSERT_TRUE(store->checkpoint_all());
    }
    const std::string root =
        read_sql(state.db(), "SELECT rootpage FROM sqlite_schema WHERE name = 'payloads'");
    auto store = open_store(state.dir());
    {
      const Failing failing("pread", "/control.db", c.error, INT_MAX,
                            (std::stoll(root) - 1) * 4096);
      expect_error(store->load(), c.code, {"FROM payloads", c.says});
      expect_error(store->find_by_id("r1"), c.code, {"FROM payloads", c.says});
      expect_error(store->prompt_ids(1, 0), c.code, {"FROM payloads", c.says});
    }
    // SQLite has ended the transaction of the reads: data read in it and data to be written may not
    // fit together any more.
    const auto written = add(*store, 3);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().what.find("commit: "), 0u) << written.error().what;
    expect_error(add(*store, 3), Errc::kStorage, {"an earlier I/O error"});
    store.reset();
    EXPECT_EQ(requests_in(state.dir()), 2);
  }
}

// ---- starts

TEST(StoreFaults, Open_WhenTheLogCannotBeSynced_Fails) {
  struct Case {
    const char* call;
    int error;
    const char* says;
  };
  for (const Case& c : {Case{"pread", EIO, "Input/output error"}, Case{"pwrite", EIO, "Input/out"},
                        Case{"sync", EIO, "Input/output error"}}) {
    const TempState state;
    {
      auto store = open_store(state.dir());
      commit(*store, {request_row(1)});
      const Failing failing("pwrite", "/control.db", ENOSPC);  // so that the log stays
      store.reset();
    }
    const std::string log = state.db() + "-wal";
    ASSERT_GT(std::filesystem::file_size(log), 0u);
    {
      const Failing failing(c.call, "/control.db-wal", c.error);
      OpenOptions options;
      options.state_dir = state.dir();
      expect_error(Store::open(options), Errc::kIo, {"rewrite " + log + ": ", c.says});
    }
    EXPECT_EQ(requests_in(state.dir()), 1) << c.call;
  }
}

TEST(StoreFaults, Open_WhenTheDirectoryCannotBeSynced_Fails) {
  const TempState state;
  const std::string name = state.dir().substr(state.dir().rfind('/'));
  const Failing failing("sync", name.c_str(), EIO);
  OpenOptions options;
  options.state_dir = state.dir();
  expect_error(Store::open(options), Errc::kIo, {"sync directory " + state.dir() + ": "});
}

TEST(StoreFaults, BootId_WhenUnreadable_IsEmpty) {
  ASSERT_NE(real_disk().boot_id(), "");
  for (const char* call : {"open", "empty"}) {
    const Failing failing(call, "/boot_id", ENOENT);
    EXPECT_EQ(real_disk().boot_id(), "") << call;
  }
}

// ---- the lock

TEST(StoreFaults, StateLock_WhenFlockOrWriteFails_IsNotHeld) {
  struct Case {
    const char* call;
    int error;
    const char* says;
  };
  const TempState state;
  for (const Case& c : {Case{"flock", ENOLCK, "flock "}, Case{"ftruncate", EIO, "write "},
                        Case{"pwrite", ENOSPC, "write "}}) {
    {
      const Failing failing(c.call, "/control.lock", c.error);
      expect_error(StateLock::acquire(state.dir(), "daemon", 0), Errc::kIo,
                   {c.says + state.dir() + "/control.lock: " + std::strerror(c.error)});
    }
    EXPECT_TRUE(StateLock::acquire(state.dir(), "daemon", 0).has_value()) << c.call;
  }
}

TEST(StoreFaults, StateLock_WhenFlockIsInterrupted_Retries) {
  const TempState state;
  const Failing failing("flock", "/control.lock", EINTR, 2);
  EXPECT_TRUE(StateLock::acquire(state.dir(), "daemon", 1000).has_value());
}

// ---- backups

TEST(StoreFaults, Backup_WhenTheDiskIsFull_LeavesNothingAndTheServiceGoesOn) {
  const TempState state;
  const std::string path = state.dir() + "/copy.db";
  auto store = open_store(state.dir());
  commit(*store, {request_row(1)});
  {
    auto backup = store->begin_backup(path).value();
    const Failing failing("pwrite", "/copy.db.part", ENOSPC);
    Result<bool> done = backup->step();
    while (done && !done.value()) done = backup->step();
    expect_error(done, Errc::kDiskFull, {"backup to " + path, "full"});
  }
  EXPECT_FALSE(leftovers_in(state.dir(), "copy.db"));
  EXPECT_TRUE(add(*store, 2));
}

TEST(StoreFaults, Backup_WhenSyncOrRenameFails_LeavesNoFile) {
  struct Case {
    const char* call;
    const char* file;
    const char* says;
  };
  const TempState state;
  const std::string path = state.dir() + "/copy.db";
  auto store = open_store(state.dir());
  commit(*store, {request_row(1)});
  for (const Case& c :
       {Case{"sync", "/copy.db.part", "copy.db"}, Case{"rename", "/copy.db", "rename "}}) {
    {
      auto backup = store->begin_backup(path).value();
      const Failing failing(c.call, c.file, EIO);
      Result<bool> done = backup->step();
      while (done && !done.value()) done = backup->step();
      ASSERT_FALSE(done);
      EXPECT_NE(done.error().what.find(c.says), std::string::npos) << done.error().what;
      EXPECT_NE(done.error().what.find(path), std::string::npos) << done.error().what;
    }
    EXPECT_FALSE(leftovers_in(state.dir(), "copy.db")) << c.call;
  }
}

// ---- restores

std::string backup_of_one(const TempState& state) {
  auto store = open_store(state.dir());
  commit(*store, {request_row(1)});
  auto backup = store->begin_backup(state.dir() + "/copy.db").value();
  while (!backup->step().value()) continue;
  return backup->report().path;
}

/// Writes two requests whose rows stay in the log.
void two_in_the_log(const TempState& state) {
  auto store = open_store(state.dir());
  commit(*store, {request_row(1), request_row(2)});
  const Failing failing("pwrite", "/control.db", ENOSPC);
  store.reset();
}

TEST(StoreFaults, Restore_WhenASystemCallFails_LeavesTheOldDatabaseWhole) {
  struct Case {
    const char* call;
    const char* file;
    std::string says;
  };
  const TempState source;
  const std::string path = backup_of_one(source);
  for (const Case& c : {Case{"sync", "/control.db.restoring", "sync file "},
                        Case{"mkdir", "/before-restore-7", "make "},
                        Case{"sync", "/before-restore-7", "sync directory "},
                        Case{"rename", "/control.db", "rename "}}) {
    const TempState state;
    two_in_the_log(state);
    {
      const Failing failing(c.call, c.file, ENOSPC);
      const auto done = restore_file(state.dir(), path, 7);
      expect_error(done, Errc::kIo, {c.says + state.dir(), std::strerror(ENOSPC)});
    }
    EXPECT_FALSE(leftovers_in(state.dir(), "restoring")) << "a copy on a disk without room";
    EXPECT_EQ(requests_in(state.dir()), 2) << c.call << " " << c.file;
    EXPECT_TRUE(restore_file(state.dir(), path, 8));
    EXPECT_EQ(requests_in(state.dir()), 1);
  }
}

TEST(StoreFaults, Restore_WhenTheOldLogCannotBeCheckpointed_FailsAndLeavesIt) {
  struct Case {
    const char* call;
    int error;
    Errc code;
  };
  const TempState source;
  const std::string path = backup_of_one(source);
  for (const Case& c : {Case{"", 0, Errc::kConflict}, Case{"pwrite", ENOSPC, Errc::kDiskFull},
                        Case{"sync", EIO, Errc::kStorage}}) {
    const TempState state;
    two_in_the_log(state);
    sqlite3* reader = nullptr;
    if (c.code == Errc::kConflict) {
      ASSERT_EQ(sqlite3_open(state.db().c_str(), &reader), SQLITE_OK);
      ASSERT_TRUE(exec(reader, "BEGIN; SELECT count(*) FROM requests"));
    }
    {
      const Failing failing(c.call, state.db().c_str(), c.error);
      expect_error(restore_file(state.dir(), path, 7), c.code,
                   {"move the log of " + state.db() + " into it"});
    }
    sqlite3_close(reader);
    EXPECT_FALSE(leftovers_in(state.dir(), "restoring"));
    EXPECT_EQ(requests_in(state.dir()), 2) << c.call;
    EXPECT_TRUE(restore_file(state.dir(), path, 8));
    EXPECT_EQ(requests_in(state.dir()), 1);
  }
}

TEST(StoreFaults, Restore_OverAnUnreadableDatabase_SavesAndReplacesIt) {
  const TempState source;
  const TempState state;
  const std::string path = backup_of_one(source);
  {
    auto store = open_store(state.dir());
    commit(*store, {request_row(1), request_row(2)});
  }
  RestoreReport report;
  {
    const Failing failing("open64", "/control.db", EIO);
    expect_error(check_file(state.db()), Errc::kIo, {"open " + state.db() + ": unable to open"});
    report = restore_file(state.dir(), path, 7).value();
  }
  EXPECT_EQ(check_file(report.previous_dir + "/control.db").value().requests, 2);
  EXPECT_EQ(requests_in(state.dir()), 1);
}

}  // namespace
}  // namespace holdfast::store::faults_test
