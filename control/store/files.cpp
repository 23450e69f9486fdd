#include "control/store/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "control/store/disk.h"

namespace holdfast::store {
Result<void> sync_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  const bool ok = fd >= 0 && fsync(fd) == 0;
  const int why = errno;
  if (fd >= 0) close(fd);
  if (ok) return {};
  return Error{Errc::kIo, "sync file " + path + ": " + std::strerror(why)};
}

Result<void> sync_directory(const std::string& dir) {
  return real_disk().sync_directory(dir);
}

Result<void> sync_directory_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return sync_directory(parent.empty() ? "." : parent);
}

void chmod_private(const std::string& path) {
  (void)chmod(path.c_str(), S_IRUSR | S_IWUSR);
}

}  // namespace holdfast::store
