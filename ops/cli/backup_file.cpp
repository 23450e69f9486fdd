#include "ops/cli/backup_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace holdfast::cli {
namespace {

Error error_of(int number, const std::string& what) {
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  return {full ? Errc::kDiskFull : Errc::kIo, "db backup: " + what + ": " + std::strerror(number)};
}

Result<void> sync_folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || fsync(fd) != 0) {
    const Error failed = error_of(errno, "sync " + folder);
    if (fd >= 0) close(fd);
    return failed;
  }
  close(fd);
  return {};
}

}  // namespace

Result<void> write_all(int fd, std::string_view bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error_of(errno, "write to " + name);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Error BackupFile::error(const std::string& what) const {
  return error_of(errno, what + " " + part_);
}

Result<std::unique_ptr<BackupFile>> BackupFile::create(const std::string& path) {
  if (access(path.c_str(), F_OK) == 0) {
    return Error{Errc::kIo, "db backup to " + path + ": the file exists; choose another name"};
  }
  const std::string part = path + ".part";
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return error_of(errno, "make " + part);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int why = errno;
    close(fd);
    if (why != EWOULDBLOCK) return error_of(why, "lock " + part);
    return Error{Errc::kConflict,
                 "db backup to " + path + ": another process writes " + part + " now"};
  }
  return std::unique_ptr<BackupFile>(new BackupFile(path, fd));
}

BackupFile::~BackupFile() {
  if (!named_) unlink(part_.c_str());
  close(fd_);
}

Result<void> BackupFile::begin(std::int64_t bytes) {
  if (ftruncate(fd_, 0) != 0 || lseek(fd_, 0, SEEK_SET) != 0) return error("empty");
  struct statvfs disk {};
  if (fstatvfs(fd_, &disk) == 0) {
    const auto free = static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize);
    if (free < bytes) {
      return Error{Errc::kDiskFull, "db backup to " + path_ + ": it has " + std::to_string(bytes) +
                                        " bytes, and the disk has " + std::to_string(free) +
                                        " free; free some, or choose another folder"};
    }
  }
  // A disk that others fill meanwhile is noticed now, where the file system can reserve space.
  if (fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, bytes) == 0) return {};
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) return error("make space for");
  return {};
}

Result<void> BackupFile::write(std::string_view bytes) {
  return write_all(fd_, bytes, part_);
}

Result<void> BackupFile::sync() {
  if (fsync(fd_) != 0) return error("sync");
  return {};
}

Result<void> BackupFile::finish() {
  int rc = renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE);
  // Some file systems cannot refuse to replace; PATH was free at the beginning.
  if (rc != 0 && errno == EINVAL && access(path_.c_str(), F_OK) != 0) {
    rc = rename(part_.c_str(), path_.c_str());
  }
  if (rc != 0) return error("give " + path_ + " its name:");
  named_ = true;
  return sync_folder_of(path_);
}

}  // namespace holdfast::cli
