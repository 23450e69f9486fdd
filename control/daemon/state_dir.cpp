#include "control/daemon/state_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace holdfast::daemon {
namespace {

Error failed(const std::string& what, const std::string& path) {
  return Error{Errc::kIo, what + " " + path + ": " + std::strerror(errno) +
                              "; --state must name a directory that this user may write to"};
}

Result<void> make_private(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return failed("make directory", path);
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return failed("look at", path);
  if (!S_ISDIR(info.st_mode)) {
    errno = ENOTDIR;
    return failed("use", path);
  }
  if ((info.st_mode & 022) != 0) {
    return Error{Errc::kIo, "use " + path + ": others may write to it; make it private: chmod 700"};
  }
  if (access(path.c_str(), R_OK | W_OK | X_OK) != 0) return failed("use", path);
  return {};
}

}  // namespace

Result<void> prepare_state_dir(const std::string& dir) {
  if (dir.empty()) return Error{Errc::kUsage, "--state: expected a directory"};
  // Unix socket paths are short: the error comes here rather than at the bind.
  constexpr std::size_t kLongest = 107 - sizeof "/run/operator.sock";
  if (dir.size() > kLongest) {
    return Error{Errc::kUsage, "--state " + dir + ": longer than " + std::to_string(kLongest) +
                                   " bytes, its sockets could not be named; use a shorter path"};
  }
  HOLDFAST_CHECKED(make_private(dir));
  return make_private(dir + "/run");
}

}  // namespace holdfast::daemon
