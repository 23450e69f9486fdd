#include "worker/link/claims.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

namespace holdfast::worker {
namespace {

constexpr int kTries = 200;
constexpr long kPauseNs = 10'000'000;
constexpr std::size_t kFileMost = 1 << 20;

std::string default_path() {
  if (geteuid() == 0) return "/run/holdfast-loads";
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') return std::string(runtime) + "/holdfast-loads";
  return "/tmp/holdfast-loads-" + std::to_string(geteuid());
}

/// The start time of a process, field 22 of /proc/PID/stat: two processes with one number never
/// have the same.
std::string start_of(std::int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream rest(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) rest >> field;
  return field;
}

/// One load of one process in one pool.
struct Claim {
  std::int64_t pid = 0;
  std::string start, pool;
  std::int64_t bytes = 0;
};

/// Claims of live processes; what cannot be read is left out.
std::vector<Claim> read_claims(int fd) {
  std::string text(kFileMost, '\0');
  const ssize_t n = pread(fd, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  std::istringstream lines(text);
  std::vector<Claim> claims;
  for (Claim c; lines >> c.pid >> c.start >> c.pool >> c.bytes;) {
    if (c.bytes > 0 && start_of(c.pid) == c.start) claims.push_back(c);
  }
  return claims;
}

void write_claims(int fd, const std::vector<Claim>& claims) {
  std::string text;
  for (const Claim& c : claims) {
    text +=
        std::to_string(c.pid) + " " + c.start + " " + c.pool + " " + std::to_string(c.bytes) + "\n";
  }
  // Truncated first: a process that dies between the two leaves no mixture of old and new lines.
  if (ftruncate(fd, 0) == 0) (void)!pwrite(fd, text.data(), text.size(), 0);
}

}  // namespace

Claims::Claims(const std::string& path) {
  const std::string file_path = path.empty() ? default_path() : path;
  fd_ = open(file_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
  struct stat st {};
  if (fd_ < 0 || (fstat(fd_, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())) return;
  close(fd_);  // another user's, or no regular file
  fd_ = -1;
}

Claims::~Claims() {
  release();
  if (fd_ >= 0) close(fd_);
}

bool Claims::lock() const {
  for (int i = 0; fd_ >= 0 && i < kTries; ++i) {
    if (flock(fd_, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    const timespec pause{0, kPauseNs};
    nanosleep(&pause, nullptr);
  }
  return false;
}

/// Bytes of the pool that loads of others are about to take.
static std::int64_t claimed_of(const std::vector<Claim>& claims, const std::string& pool) {
  std::int64_t bytes = 0;
  for (const Claim& c : claims) bytes += c.pool == pool ? c.bytes : 0;
  return bytes;
}

Result<void> Claims::claim(std::int64_t bytes, const std::vector<MemoryPool>& pools) {
  if (bytes <= 0 || !lock()) return {};
  std::vector<Claim> claims = read_claims(fd_);
  const std::int64_t pid = getpid();
  std::erase_if(claims, [&](const Claim& c) { return c.pid == pid; });
  Result<void> granted;
  for (const MemoryPool& pool : pools) {
    if (pool.available < 0 || pool.part) continue;
    const std::int64_t others = claimed_of(claims, pool.key);
    if (bytes + others <= pool.available) continue;
    granted =
        Error{Errc::kMemoryExhausted,
              "load: needs " + std::to_string(bytes) + " bytes, " + std::to_string(pool.available) +
                  " are available, of which loads of other " +
                  "workers on this machine are about to take " + std::to_string(others) +
                  "; wait for those, or unload a model"};
    break;
  }
  if (granted) {
    const std::string start = start_of(pid);
    for (const MemoryPool& pool : pools) claims.push_back({pid, start, pool.key, bytes});
  }
  write_claims(fd_, claims);
  flock(fd_, LOCK_UN);
  return granted;
}

void Claims::release() {
  if (!lock()) return;
  std::vector<Claim> claims = read_claims(fd_);
  if (std::erase_if(claims, [](const Claim& c) { return c.pid == getpid(); }) > 0) {
    write_claims(fd_, claims);
  }
  flock(fd_, LOCK_UN);
}

}  // namespace holdfast::worker
