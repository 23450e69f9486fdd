#include "shared/base/standard_files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace holdfast {

void open_standard_files() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free descriptor is this one: those below it are open by now.
    if (open("/dev/null", O_RDWR) != fd) return;
  }
}

std::int64_t raise_open_files(std::int64_t minimum) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return minimum;
  const auto enough = static_cast<rlim_t>(minimum);
  if (limit.rlim_cur < enough) {
    rlimit more = limit;
    more.rlim_cur = std::min(enough, limit.rlim_max);
    if (setrlimit(RLIMIT_NOFILE, &more) == 0) limit = more;
  }
  return static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX));
}

}  // namespace holdfast
