// Goal: a database is opened with the settings that the store needs, or not at all, with the reason
// and the file; a short use by another process is waited for, with a limit. Method: SQLite's own
// file systems, one that hides what SQLite asks for, a second connection that holds the file.
#include "control/store/open.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>

#include "tests/store/temp_state.h"

namespace holdfast::store::open_test {
namespace {

/// The machine's own disk, but with another file system for SQLite and an action in each pause.
class OtherDisk final : public Disk {
 public:
  const char* name = nullptr;
  std::function<void()> pause = [] {};
  int pauses = 0;

  const char* vfs() const override { return name; }
  Result<void> rewrite(const std::string& path) override { return real_disk().rewrite(path); }
  Result<void> sync_directory(const std::string& dir) override {
    return real_disk().sync_directory(dir);
  }
  std::int64_t free_bytes(const std::string& dir) override { return real_disk().free_bytes(dir); }
  bool remove(const std::string& path) override { return real_disk().remove(path); }
  void allocate(const std::string& path, std::int64_t bytes) override {
    real_disk().allocate(path, bytes);
  }
  void pause_ms(int) override {
    ++pauses;
    pause();
  }
  std::string boot_id() override { return real_disk().boot_id(); }
};

std::string why_not_opened(OtherDisk& disk, const TempState& state, Errc code) {
  const auto db = open_database(disk, state.dir());
  if (db) return "opened";
  EXPECT_EQ(errc_name(db.error().code), errc_name(code));
  return db.error().what;
}

// ---- a file system that hides things

sqlite3_vfs* g_base = nullptr;
sqlite3_io_methods g_methods;
int (*g_control)(sqlite3_file*, int, void*) = nullptr;
const char* g_silent = "";  // the pragma that answers nothing
bool g_no_mapping = false;

int control(sqlite3_file* file, int what, void* argument) {
  if (what == SQLITE_FCNTL_MMAP_SIZE && g_no_mapping) return SQLITE_NOTFOUND;
  if (what == SQLITE_FCNTL_PRAGMA &&
      std::strcmp(static_cast<const char**>(argument)[1], g_silent) == 0) {
    return SQLITE_OK;
  }
  return g_control(file, what, argument);
}

int open_hiding(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* granted) {
  const int rc = g_base->xOpen(g_base, path, file, flags, granted);
  if (rc == SQLITE_OK && (flags & SQLITE_OPEN_MAIN_DB) != 0) {
    g_methods = *file->pMethods;
    g_control = g_methods.xFileControl;
    g_methods.xFileControl = control;
    file->pMethods = &g_methods;
  }
  return rc;
}

const char* hiding_vfs() {
  static sqlite3_vfs vfs;
  if (g_base == nullptr) {
    g_base = sqlite3_vfs_find(nullptr);
    vfs = *g_base;
    vfs.zName = "hiding";
    vfs.xOpen = open_hiding;
    sqlite3_vfs_register(&vfs, 0);
  }
  return vfs.zName;
}

TEST(OpenDatabase, Open_WhenSharedMemoryIsUnsupported_FailsForWalMode) {
  const TempState state;
  OtherDisk disk;
  disk.name = "unix-none";
  EXPECT_EQ(why_not_opened(disk, state, Errc::kStorage),
            "open control.db: PRAGMA journal_mode reads delete after it was set to WAL");
}

TEST(OpenDatabase, Open_WhenAPragmaDoesNotTakeEffect_NamesIt) {
  for (const char* pragma : {"synchronous", "foreign_keys", "busy_timeout"}) {
    const TempState state;
    OtherDisk disk;
    disk.name = hiding_vfs();
    g_silent = pragma;
    const std::string why = why_not_opened(disk, state, Errc::kStorage);
    g_silent = "";
    EXPECT_NE(why.find(std::string("control.db: PRAGMA ") + pragma + " reads  after"),
              std::string::npos)
        << why;
  }
}

TEST(OpenDatabase, Open_WhenMmapIsUnsupported_Succeeds) {
  const TempState state;
  OtherDisk disk;
  disk.name = hiding_vfs();
  g_no_mapping = true;
  const auto db = open_database(disk, state.dir());
  g_no_mapping = false;
  ASSERT_TRUE(db) << db.error().what;
  EXPECT_EQ(query_text(db->get(), "PRAGMA journal_mode").value(), "wal");
}

TEST(OpenDatabase, Open_WhenTheFileIsLocked_RetriesAHundredTimes) {
  const TempState state;
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(state.db().c_str(), &other), SQLITE_OK);
  ASSERT_TRUE(exec(other, "BEGIN EXCLUSIVE"));
  OtherDisk disk;
  EXPECT_EQ(why_not_opened(disk, state, Errc::kConflict).find("open " + state.db() + ": "), 0u);
  EXPECT_EQ(disk.pauses, 100) << "and then it is an owner, not a moment";
  EXPECT_NE(why_not_opened(disk, state, Errc::kConflict).find("another program writes to this"),
            std::string::npos);
  disk.pauses = 0;
  disk.pause = [&] {
    if (disk.pauses < 3) return;
    EXPECT_TRUE(exec(other, "COMMIT"));
  };
  EXPECT_TRUE(open_database(disk, state.dir()));
  EXPECT_EQ(disk.pauses, 3);
  sqlite3_close(other);
}

TEST(OpenDatabase, PauseMs_WhenCalled_SleepsThatLong) {
  const auto start = std::chrono::steady_clock::now();
  real_disk().pause_ms(20);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
}

// ---- SQLite's errors and ours

TEST(Sqlite, SqliteError_WithEachResultCode_HasTheMatchingErrc) {
  struct Case {
    int rc;
    Errc code;
  };
  for (const Case& c :
       {Case{SQLITE_FULL, Errc::kDiskFull}, Case{SQLITE_CORRUPT, Errc::kCorrupt},
        Case{SQLITE_CORRUPT_INDEX, Errc::kCorrupt}, Case{SQLITE_NOTADB, Errc::kCorrupt},
        Case{SQLITE_BUSY, Errc::kConflict}, Case{SQLITE_BUSY_RECOVERY, Errc::kConflict},
        Case{SQLITE_LOCKED, Errc::kConflict}, Case{SQLITE_CANTOPEN, Errc::kIo},
        Case{SQLITE_READONLY_DIRECTORY, Errc::kIo}, Case{SQLITE_PERM, Errc::kIo},
        Case{SQLITE_IOERR_FSYNC, Errc::kStorage}, Case{SQLITE_CONSTRAINT, Errc::kStorage}}) {
    const Error error = sqlite_error(nullptr, c.rc, "sync X");
    EXPECT_EQ(errc_name(error.code), errc_name(c.code)) << error.what;
    EXPECT_EQ(error.what, "sync X: " + std::string(sqlite3_errstr(c.rc)) + " (SQLite code " +
                              std::to_string(c.rc) + ")");
  }
}

TEST(Sqlite, Bind_WhenTheTextIsEmpty_StoresTextNotNull) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(":memory:", &db), SQLITE_OK);
  ASSERT_TRUE(exec(db, "CREATE TABLE t(a TEXT NOT NULL, b BLOB NOT NULL, c TEXT) STRICT"));
  {
    Statement insert = Statement::prepare(db, "INSERT INTO t VALUES (?, ?, ?)").value();
    const std::string_view none;
    ASSERT_EQ(none.data(), nullptr);
    EXPECT_TRUE(insert.use().bind(none).bind_blob(none).bind_null().run());
  }
  EXPECT_EQ(query_text(db, "SELECT typeof(a) || typeof(b) || typeof(c) FROM t").value(),
            "textblobnull");
  EXPECT_EQ(query_int(db, "SELECT count(*) FROM t").value(), 1);
  EXPECT_EQ(query_int(db, "SELECT 7 FROM t WHERE c = 'x'").value(), 0) << "there is none";
  sqlite3_close(db);
}

}  // namespace
}  // namespace holdfast::store::open_test
