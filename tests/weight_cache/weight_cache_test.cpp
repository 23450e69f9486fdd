// Goal: packed weights outlive a worker that is killed, are never seen half-written or changed, and
// are freed when nobody uses them. Method: the weight cache server on a socket in a temporary
// folder; clients in this process and in forked ones that die by SIGKILL; hostile records.
#include "shared/weight_cache/server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>

#include "shared/weight_cache/client.h"
#include "shared/weight_cache/memfd.h"

namespace holdfast::weight_cache::weight_cache_test {
namespace {

constexpr std::uint64_t kBytes = 1 << 20;

/// A sealed memory file of kBytes, each byte `value`.
int sealed_memfd_of(char value) {
  const int fd = create_memfd(kBytes).value();
  void* at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  std::memset(at, value, kBytes);
  mprotect(at, kBytes, PROT_READ);
  EXPECT_TRUE(seal_memfd(fd));
  munmap(at, kBytes);
  return fd;
}

/// The byte that fills the file; -1 if it is not the same everywhere.
int content_of(int fd) {
  void* at = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return -1;
  const char* bytes = static_cast<const char*>(at);
  const bool one = std::memcmp(bytes, bytes + 1, kBytes - 1) == 0;
  const int value = one ? bytes[0] : -1;
  munmap(at, kBytes);
  return value;
}

struct WeightCache : ::testing::Test {
  std::string folder;
  std::unique_ptr<WeightCacheServer> server;

  void SetUp() override {
    char name[] = "/tmp/holdfast-images-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder = name;
  }
  void TearDown() override {
    server.reset();
    std::filesystem::remove_all(folder);
  }
  std::string path() const { return folder + "/images.sock"; }
  void start(std::int64_t orphan_ms = kOrphanMs, std::size_t entries_max = 64) {
    server.reset();
    server = WeightCacheServer::start({path(), orphan_ms, entries_max}).value();
  }
  static bool wait_for(const std::function<bool()>& done) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done() && std::chrono::steady_clock::now() < until) usleep(2000);
    return done();
  }
  bool holds(std::size_t entries, std::size_t users) {
    return wait_for([&] {
      const WeightCacheServer::Held held = server->held();
      return held.entries == entries && held.users == users && held.bytes == entries * kBytes;
    });
  }
  /// Runs a worker that puts weights (or finds those that are there) and is killed.
  void worker_dies(const std::string& key, char value, bool puts) {
    const pid_t child = fork();
    if (child == 0) {
      Client client(path());
      bool done = client.connected();
      if (puts) {
        client.put(key, kBytes, sealed_memfd_of(value));
        done = done && client.find(key, kBytes) >= 0;  // the weights have arrived
      } else {
        const int fd = client.find(key, kBytes);
        done = fd >= 0 && content_of(fd) == value;
      }
      if (!done) _exit(1);
      kill(getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the worker did not get what it wanted";
  }
};

TEST_F(WeightCache, CachedWeights_WhenTheWorkerDies_AreFoundByTheNext) {
  start();
  worker_dies("a", 'x', true);
  EXPECT_TRUE(holds(1, 0));
  for (int i = 0; i < 3; ++i) worker_dies("a", 'x', false);
  Client next(path());
  const int fd = next.find("a", kBytes);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(content_of(fd), 'x');
  EXPECT_TRUE(holds(1, 1));
  close(fd);
}

TEST_F(WeightCache, CachedWeights_WhenFound_AreReadOnly) {
  start();
  Client client(path());
  ASSERT_TRUE(client.connected());
  client.put("a", kBytes, sealed_memfd_of('x'));
  const int fd = client.find("a", kBytes);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_EQ(pwrite(fd, "y", 1, 0), -1);
  EXPECT_EQ(ftruncate(fd, 1), -1);
  EXPECT_EQ(content_of(fd), 'x');
  close(fd);
}

TEST_F(WeightCache, CachedWeights_WithAnotherKeyOrSize_AreNotFound) {
  start();
  Client client(path());
  ASSERT_TRUE(client.connected());
  client.put("a", kBytes, sealed_memfd_of('x'));
  EXPECT_EQ(client.find("b", kBytes), -1);
  EXPECT_EQ(client.find("a", kBytes - 1), -1);
  EXPECT_EQ(client.find("", kBytes), -1);
  EXPECT_EQ(client.find(std::string(1000, 'a'), kBytes), -1);
  client.put("a", kBytes, sealed_memfd_of('y'));  // the first one stays
  const int fd = client.find("a", kBytes);
  EXPECT_EQ(content_of(fd), 'x');
  close(fd);
}

TEST_F(WeightCache, CachedWeights_WhenUnsealedOrOfWrongSize_AreRefused) {
  start();
  Client client(path());
  ASSERT_TRUE(client.connected());
  const int open = create_memfd(kBytes).value();
  client.put("open", kBytes, open);
  const int file = ::open((folder + "/file").c_str(), O_RDWR | O_CREAT, 0600);
  client.put("file", kBytes, file);
  const int sealed = sealed_memfd_of('x');
  client.put("size", kBytes + 1, sealed);
  client.put("nothing", kBytes, -1);
  for (const char* key : {"open", "file", "size", "nothing"}) {
    EXPECT_EQ(client.find(key, kBytes), -1) << key;
    EXPECT_EQ(client.find(key, kBytes + 1), -1) << key;
  }
  EXPECT_TRUE(holds(0, 0));
  for (const int fd : {open, file, sealed}) close(fd);
}

TEST_F(WeightCache, CachedWeights_WhenEveryUserReleasesThem_AreFreed) {
  start();
  Client one(path());
  Client two(path());
  ASSERT_TRUE(one.connected());
  one.put("a", kBytes, sealed_memfd_of('x'));
  close(two.find("a", kBytes));
  EXPECT_TRUE(holds(1, 2));
  one.release("a");
  EXPECT_TRUE(holds(1, 1));
  one.release("a");  // no effect
  one.release("unknown");
  EXPECT_TRUE(holds(1, 1));
  two.release("a");
  EXPECT_TRUE(holds(0, 0));
}

TEST_F(WeightCache, CachedWeights_WhenOrphanedTooLong_AreFreed) {
  start(20);
  worker_dies("a", 'x', true);
  EXPECT_TRUE(holds(0, 0));
  start(60'000);
  worker_dies("a", 'x', true);
  usleep(100'000);
  EXPECT_TRUE(holds(1, 0));
}

TEST_F(WeightCache, WeightCache_WhenFull_RefusesAnother) {
  start(kOrphanMs, 2);
  Client client(path());
  ASSERT_TRUE(client.connected());
  for (const char* key : {"a", "b", "c"}) client.put(key, kBytes, sealed_memfd_of('x'));
  EXPECT_EQ(client.find("c", kBytes), -1);
  EXPECT_TRUE(holds(2, 2));
}

TEST_F(WeightCache, WeightCacheClient_WhenTheServerIsAbsentOrStops_FindsNothing) {
  Client client(path());
  EXPECT_FALSE(client.connected());
  EXPECT_EQ(client.find("a", kBytes), -1);
  client.put("a", kBytes, -1);
  client.release("a");
  start();
  EXPECT_TRUE(client.connected());
  client.put("a", kBytes, sealed_memfd_of('x'));
  EXPECT_TRUE(holds(1, 1));
  server.reset();
  EXPECT_EQ(client.find("a", kBytes), -1);
  start();
  EXPECT_EQ(client.find("a", kBytes), -1) << "a new one, with nothing";
  EXPECT_TRUE(client.connected());
  EXPECT_FALSE(WeightCacheServer::start({folder + "/no/such/folder", 1, 1}));
  EXPECT_FALSE(WeightCacheServer::start({std::string(300, 'x'), 1, 1}));
}

TEST_F(WeightCache, WeightCacheServer_WithGarbageMessages_ClosesOnlyThatConnection) {
  start();
  Client client(path());
  ASSERT_TRUE(client.connected());
  client.put("a", kBytes, sealed_memfd_of('x'));
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path().c_str());
    const int raw = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    ASSERT_EQ(connect(raw, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    char noise[512];
    for (char& c : noise) c = static_cast<char>(random());
    if (i % 3 == 0) {
      Message message = message_of(static_cast<Verb>(random() % 8), "a", random());
      std::memset(message.key, 'z', sizeof(message.key));  // no end
      send_message(raw, message, i % 2 == 0 ? 0 : -1);
    } else {
      send(raw, noise, random() % sizeof(noise), MSG_NOSIGNAL);
    }
    close(raw);
  }
  const int fd = client.find("a", kBytes);
  EXPECT_EQ(content_of(fd), 'x');
  close(fd);
  EXPECT_TRUE(holds(1, 1));
}

}  // namespace
}  // namespace holdfast::weight_cache::weight_cache_test
