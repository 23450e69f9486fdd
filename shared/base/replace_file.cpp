#include "shared/base/replace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace holdfast {
namespace {

/// Writes all of it. False: errno says why not.
bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

Result<void> replace_file(const std::string& path, std::string_view text) {
  const std::string fresh = path + ".new";
  const auto failed = [&] {
    return Error{Errc::kIo, "write " + path + ": " + std::strerror(errno)};
  };
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return failed();
  const bool whole = write_all(fd, text);
  const Error error = failed();
  if (close(fd) != 0 || !whole) return whole ? failed() : error;
  if (std::rename(fresh.c_str(), path.c_str()) != 0) return failed();
  return {};
}

}  // namespace holdfast
