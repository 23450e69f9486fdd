#include "shared/base/open_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>

namespace holdfast {
namespace {

constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;

std::optional<std::map<std::string, int>>& preopened_files() {
  static std::optional<std::map<std::string, int>> files;
  return files;
}

}  // namespace

int open_to_read(const std::string& path) {
  const auto& preopened = preopened_files();
  if (!preopened) return ::open(path.c_str(), kFlags);
  const auto found = preopened->find(path);
  if (found == preopened->end()) {
    errno = ENOENT;
    return -1;
  }
  if (found->second < 0) {
    errno = -found->second;
    return -1;
  }
  const int fd = fcntl(found->second, F_DUPFD_CLOEXEC, 0);
  if (fd >= 0) lseek(fd, 0, SEEK_SET);
  return fd;
}

namespace {

bool is_file(const std::string& path) {
  struct stat st = {};
  return stat(path.c_str(), &st) == 0 && !S_ISDIR(st.st_mode);
}

}  // namespace

Result<void> preopen_files(const std::vector<std::string>& paths, std::size_t most) {
  std::map<std::string, int> files;  // a descriptor, or an errno below zero
  for (const std::string& path : paths) {
    if (files.count(path) > 0 || !is_file(path)) continue;
    if (files.size() >= most) {
      return Error{Errc::kIo, path + ": one of more than " + std::to_string(most) +
                                  " files, expected at most so many in a model's folder"};
    }
    const int fd = ::open(path.c_str(), kFlags);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
      return Error{Errc::kIo, path + ": " + std::strerror(errno)};
    }
    files.emplace(path, fd >= 0 ? fd : -errno);
  }
  preopened_files() = std::move(files);
  return {};
}

}  // namespace holdfast
