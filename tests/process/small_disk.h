#pragma once
// A file system of a few megabytes for a state directory, and ways to fill it.

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>

namespace holdfast::process {

/// A tmpfs, where mounting is allowed.
class SmallDisk {
 public:
  SmallDisk(const std::string& path, const std::string& size) : path_(path) {
    std::filesystem::create_directories(path);
    if (mount("holdfast-test", path.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0) {
      mounted_ = true;
    } else {
      why_ = std::string("a tmpfs cannot be mounted here: ") + std::strerror(errno);
    }
  }
  ~SmallDisk() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  const std::string& path() const { return path_; }
  const std::string& why_not() const { return why_; }
  std::int64_t free_bytes() const {
    struct statvfs fs {};
    return statvfs(path_.c_str(), &fs) == 0 ? static_cast<std::int64_t>(fs.f_bavail * fs.f_frsize)
                                            : -1;
  }
  /// Takes all but `leave` bytes.
  void fill(std::int64_t leave) const {
    const int fd =
        open((path_ + "/filler").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const std::string block(4096, 'x');
    while (free_bytes() > leave && write(fd, block.data(), block.size()) > 0) {
    }
    close(fd);
  }
  void free() const { std::filesystem::remove(path_ + "/filler"); }

 private:
  std::string path_;
  std::string why_;
  bool mounted_ = false;
};

}  // namespace holdfast::process
