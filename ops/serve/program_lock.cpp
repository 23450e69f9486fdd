#include "ops/serve/program_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace holdfast::cli {

Result<int> lock_remote_state(const std::string& state) {
  const std::string path = state + "/run/node.lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return Error{Errc::kIo, "open " + path + ": " + std::strerror(errno)};
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  return Error{Errc::kConflict,
               "another `holdfast node` or `holdfast gateway` uses the state directory " + state +
                   "; name another one with --state"};
}

}  // namespace holdfast::cli
