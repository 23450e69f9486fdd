#include "control/fetch/disk.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace holdfast::fetch {
namespace {

namespace fs = std::filesystem;

std::string mib(std::int64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

}  // namespace

Error disk_full(const std::string& path, std::int64_t needed) {
  struct statvfs disk {};
  std::string have;
  if (statvfs(fs::path(path).parent_path().c_str(), &disk) == 0) {
    have = ", " + mib(static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize)) + " are free";
  }
  const std::string missing = needed < 0 ? std::string("more room is") : mib(needed) + " are";
  return {Errc::kDiskFull, path + ": " + missing + " needed" + have +
                               "; make room, or give another state directory (--state)"};
}

Error file_error(const char* operation, const std::string& path, std::int64_t needed) {
  if (errno == ENOSPC || errno == EDQUOT) return disk_full(path, needed);
  return {Errc::kIo, std::string(operation) + " " + path + ": " + std::strerror(errno)};
}

void sync_folder(const std::string& path) {
  const int fd = open(fs::path(path).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

}  // namespace holdfast::fetch
