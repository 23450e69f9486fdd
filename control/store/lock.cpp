#include "control/store/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace holdfast::store {
namespace {

// A daemon that was killed holds its lock until the kernel has ended it. A daemon that is started
// at once (by a restarted supervisor) must not take it for a second owner.
constexpr std::int64_t kDyingMs = 1'000;

std::string read_owner(int fd) {
  char buffer[128];
  const ssize_t n = pread(fd, buffer, sizeof buffer, 0);
  std::string text(buffer, static_cast<std::size_t>(n > 0 ? n : 0));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.pop_back();
  return text;
}

Error lock_io(const std::string& path, const char* what) {
  return Error{Errc::kIo, std::string(what) + " " + path + ": " + std::strerror(errno) +
                              "; the state directory must be writable for this user"};
}

}  // namespace

Result<StateLock> StateLock::acquire(const std::string& state_dir, const std::string& role,
                                     std::int64_t wait_ms) {
  const std::string path = state_dir + "/control.lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return lock_io(path, "open");
  StateLock lock(fd);
  constexpr std::int64_t kPollMs = 20;
  for (std::int64_t waited = 0;; waited += kPollMs) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) break;
    if (errno != EWOULDBLOCK && errno != EINTR) return lock_io(path, "flock");
    const std::string owner = read_owner(fd);
    const bool brief = owner.find("role=cli") != std::string::npos;
    if (waited >= (brief ? wait_ms : std::min(wait_ms, kDyingMs))) {
      return Error{Errc::kConflict, "lock " + path + ": held by " +
                                        (owner.empty() ? "another process" : owner) +
                                        "; one process owns a state directory, stop that one or "
                                        "use another --state"};
    }
    const timespec pause{0, kPollMs * 1'000'000};
    nanosleep(&pause, nullptr);
  }
  const std::string text = "pid=" + std::to_string(getpid()) + " role=" + role + "\n";
  if (ftruncate(fd, 0) != 0 ||
      pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return lock_io(path, "write");
  }
  return lock;
}

StateLock::~StateLock() {
  if (fd_ >= 0) close(fd_);  // the lock ends with the last descriptor
}

}  // namespace holdfast::store
