// Goal: what the store asks of the file system happens, or the error names the path: bytes survive
// a rewrite, names and sizes are as requested; a directory has one owner, which is waited for as
// long as its role says; the reserve is made where there is space and nowhere else. Method: the
// real disk in a temporary directory, and one that lies about its free space.
#include "control/store/disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "control/store/files.h"
#include "tests/store/temp_state.h"

namespace holdfast::store::disk_test {
namespace {

namespace fs = std::filesystem;

void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string get(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Disk, Rewrite_WithFilesOfAnySize_ChangesNoByte) {
  const TempState state;
  const std::string path = state.dir() + "/log";
  for (const std::size_t bytes : {0, 1, 1 << 20, (1 << 20) + 1, 5 << 19}) {
    std::string content(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(i * 7 + i / 4096);
    put(path, content);
    const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
    fs::last_write_time(path, long_ago);
    EXPECT_TRUE(real_disk().rewrite(path)) << bytes;
    EXPECT_EQ(get(path), content) << bytes;
    EXPECT_EQ(fs::last_write_time(path) == long_ago, bytes == 0) << bytes;
  }
}

TEST(Disk, RewriteAndSync_WhenTheyFail_NameThePath) {
  const TempState state;
  EXPECT_TRUE(real_disk().rewrite(state.dir() + "/none")) << "there is nothing to lose";
  EXPECT_FALSE(fs::exists(state.dir() + "/none"));
  const auto directory = real_disk().rewrite(state.dir());
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, Errc::kIo);
  EXPECT_NE(directory.error().what.find(state.dir()), std::string::npos);
  EXPECT_TRUE(sync_directory(state.dir()));
  EXPECT_TRUE(sync_directory_of(state.dir() + "/any"));
  EXPECT_TRUE(sync_directory_of("any")) << "the one that we are in";
  const auto nowhere = sync_directory_of(state.dir() + "/none/any");
  ASSERT_FALSE(nowhere);
  EXPECT_NE(nowhere.error().what.find(state.dir() + "/none:"), std::string::npos);
  const auto missing = sync_file(state.dir() + "/none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::kIo);
  EXPECT_NE(missing.error().what.find("/none: No such file"), std::string::npos);
  put(state.dir() + "/there", "x");
  EXPECT_TRUE(sync_file(state.dir() + "/there"));
}

TEST(Disk, Allocate_WhenCalled_ReservesBlocksUntilRemoved) {
  const TempState state;
  const std::string path = state.dir() + "/reserve";
  real_disk().allocate(path, 70'000);
  EXPECT_EQ(fs::file_size(path), 70'000u);
  struct stat st {};
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  EXPECT_GE(st.st_blocks * 512, 70'000) << "it takes its room";
  EXPECT_TRUE(real_disk().remove(path));
  EXPECT_FALSE(real_disk().remove(path));
  real_disk().allocate(state.dir() + "/none/reserve", 10);  // no error, only no reserve
  EXPECT_GT(real_disk().free_bytes(state.dir()), 0);
  EXPECT_EQ(real_disk().free_bytes(state.dir() + "/none"), 0);
}

TEST(Disk, DiskCalls_WhenTheyReturn_LeaveNoFileOpen) {
  const TempState state;
  const auto open_files = [] {
    const auto all = fs::directory_iterator("/proc/self/fd");
    return std::distance(fs::begin(all), fs::end(all));
  };
  const auto before = open_files();
  for (const char* name : {"/there", "/none/there"}) {
    const std::string path = state.dir() + name;
    real_disk().allocate(path, 10);
    (void)real_disk().rewrite(path);
    (void)sync_file(path);
    (void)sync_directory_of(path);
    (void)real_disk().boot_id();
    (void)StateLock::acquire(fs::path(path).parent_path(), "cli", 0);
  }
  EXPECT_EQ(open_files(), before);
}

TEST(Disk, BootId_ReturnsTheKernelsBootId) {
  const std::string id = real_disk().boot_id();
  EXPECT_FALSE(id.empty());
  EXPECT_EQ(id.find('\n'), std::string::npos);
  EXPECT_EQ(id + "\n", get("/proc/sys/kernel/random/boot_id"));
}

/// The machine's own disk, but with the free space that a test sets.
class RoomyDisk final : public Disk {
 public:
  std::int64_t free = 0;
  const char* vfs() const override { return real_disk().vfs(); }
  Result<void> rewrite(const std::string& path) override { return real_disk().rewrite(path); }
  Result<void> sync_directory(const std::string& dir) override {
    return real_disk().sync_directory(dir);
  }
  std::int64_t free_bytes(const std::string&) override { return free; }
  bool remove(const std::string& path) override { return real_disk().remove(path); }
  void allocate(const std::string& path, std::int64_t bytes) override {
    real_disk().allocate(path, bytes);
  }
  void pause_ms(int ms) override { real_disk().pause_ms(ms); }
  std::string boot_id() override { return real_disk().boot_id(); }
};

TEST(DiskReserve, Reserve_WhenFourTimesItsSizeIsFree_IsAllocatedAtStart) {
  constexpr std::int64_t kBytes = 100'000;
  for (const std::int64_t bytes : {std::int64_t{0}, kBytes}) {
    for (const std::int64_t free : {4 * kBytes - 1, 4 * kBytes}) {
      const TempState state;
      RoomyDisk disk;
      disk.free = free;
      OpenOptions options;
      options.state_dir = state.dir();
      options.disk = &disk;
      options.reserve_bytes = bytes;
      auto store = Store::open(options).value();
      const bool taken = bytes > 0 && free == 4 * kBytes;
      EXPECT_EQ(fs::exists(state.dir() + "/control.reserve"), taken) << bytes << " " << free;
      EXPECT_EQ(store->release_reserve(), taken);
      EXPECT_FALSE(store->release_reserve()) << "there is no second one";
      store->restore_reserve();
      EXPECT_EQ(store->release_reserve(), taken) << "there is plenty again";
      EXPECT_EQ(store->disk_free(), free);
    }
  }
}

/// Holds the lock under this role in a child until its pipe is closed (or twenty seconds), and a
/// while longer. Returns the write end of the pipe.
int hold_lock(const std::string& dir, const char* role, useconds_t linger_us, pid_t& child) {
  int ready[2];
  int end[2];
  CHECK(pipe(ready) == 0 && pipe(end) == 0);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    close(end[1]);
    auto lock = StateLock::acquire(dir, role, 0);
    pollfd told{end[0], POLLIN, 0};
    if (!lock || write(ready[1], "x", 1) != 1) _exit(1);
    (void)poll(&told, 1, 20'000);
    usleep(linger_us);
    _exit(0);
  }
  char held = 0;
  EXPECT_EQ(read(ready[0], &held, 1), 1);
  for (const int fd : {ready[0], ready[1], end[0]}) close(fd);
  return end[1];
}

// A command line is soon done; a daemon that holds on is another owner.
TEST(StateLock, Acquire_WhenHeldByCommandLine_WaitsLongerThanForDaemon) {
  const TempState state;
  pid_t child = 0;
  int end = hold_lock(state.dir(), "daemon", 0, child);
  const auto refused = StateLock::acquire(state.dir(), "daemon", 60'000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kConflict);
  EXPECT_NE(refused.error().what.find("role=daemon"), std::string::npos);
  EXPECT_EQ(refused.error().what.find('\n'), std::string::npos);
  close(end);
  int status = 0;
  waitpid(child, &status, 0);
  end = hold_lock(state.dir(), "cli", 1'500'000, child);
  EXPECT_FALSE(StateLock::acquire(state.dir(), "daemon", 0)) << "who waits for nobody";
  close(end);  // the child lets go after more than the second that a daemon would get
  EXPECT_TRUE(StateLock::acquire(state.dir(), "daemon", 60'000).has_value());
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// The holder may not have written its name yet, or the file may be zeros after a power failure.
TEST(StateLock, Acquire_WhenHeld_NamesTheOwnerFromTheFile) {
  const TempState state;
  const std::string path = state.dir() + "/control.lock";
  struct Case {
    std::string text, says;
  };
  for (const Case& c : {Case{"", "held by another process;"}, Case{"pid=7", "held by pid=7;"},
                        Case{std::string("pid=7 role=x\n\0\0", 15), "held by pid=7 role=x;"},
                        Case{std::string(3, '\0'), "held by another process;"}}) {
    put(path, c.text);
    const int fd = open(path.c_str(), O_RDONLY);
    ASSERT_EQ(flock(fd, LOCK_EX), 0);
    const auto lock = StateLock::acquire(state.dir(), "daemon", 0);
    close(fd);
    ASSERT_FALSE(lock);
    EXPECT_EQ(lock.error().code, Errc::kConflict);
    EXPECT_NE(lock.error().what.find("lock " + path + ": " + c.says), std::string::npos)
        << lock.error().what;
  }
}

TEST(StateLock, Acquire_WhenTheDirectoryIsMissing_Fails) {
  const TempState state;
  const auto lock = StateLock::acquire(state.dir() + "/none", "daemon", 0);
  ASSERT_FALSE(lock);
  EXPECT_EQ(lock.error().code, Errc::kIo);
  EXPECT_NE(lock.error().what.find("/none/control.lock"), std::string::npos);
  { EXPECT_TRUE(StateLock::acquire(state.dir(), "a role with a long name", 0).has_value()); }
  const auto held = StateLock::acquire(state.dir(), "cli", 0);
  ASSERT_TRUE(held.has_value()) << "who let go does not hold it";
  EXPECT_EQ(get(state.dir() + "/control.lock"), "pid=" + std::to_string(getpid()) + " role=cli\n");
}

}  // namespace
}  // namespace holdfast::store::disk_test
