#include "shared/weight_cache/idle.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>

namespace holdfast::weight_cache {
namespace {

std::string note_path(const std::string& socket_path) {
  return socket_path + ".idle";
}

}  // namespace

std::int64_t idle_bytes(const std::string& socket_path) {
  if (socket_path.empty()) return 0;
  const int fd = open(note_path(socket_path).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return 0;
  char text[64] = {};
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  std::int64_t bytes = 0;
  int pid = 0;
  if (n <= 0 || std::sscanf(text, "%" SCNd64 " %d", &bytes, &pid) != 2 || bytes < 0) return 0;
  const bool lives = pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
  return lives ? bytes : 0;
}

IdleNote::IdleNote(const std::string& socket_path) : path_(note_path(socket_path)) {
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  write(0);
}

IdleNote::~IdleNote() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(path_.c_str());
}

void IdleNote::write(std::uint64_t bytes) {
  if (fd_ < 0 || bytes == written_) return;
  char text[64];
  // The length is always the same: a reader never sees the end of an older number.
  const int n = std::snprintf(text, sizeof text, "%020" PRIu64 " %010d\n", bytes, getpid());
  if (pwrite(fd_, text, static_cast<std::size_t>(n), 0) == n) written_ = bytes;
}

}  // namespace holdfast::weight_cache
