#include "control/store/disk.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace holdfast::store {
namespace {

class RealDisk final : public Disk {
 public:
  const char* vfs() const override { return nullptr; }
  Result<void> rewrite(const std::string& path) override {
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return {};
    std::string buffer(1 << 20, '\0');
    bool ok = fd >= 0;
    for (off_t at = 0; ok;) {
      const ssize_t n = pread(fd, buffer.data(), buffer.size(), at);
      if (n == 0) break;
      ok = n > 0 && pwrite(fd, buffer.data(), static_cast<std::size_t>(n), at) == n;
      at += n;
    }
    ok = ok && fdatasync(fd) == 0;
    const int why = errno;
    if (fd >= 0) close(fd);
    if (ok) return {};
    return Error{Errc::kIo, "rewrite " + path + ": " + std::strerror(why)};
  }
  Result<void> sync_directory(const std::string& dir) override {
    const int fd = open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool ok = fd >= 0 && fsync(fd) == 0;
    const int why = errno;
    if (fd >= 0) close(fd);
    if (ok) return {};
    return Error{Errc::kIo, "sync directory " + dir + ": " + std::strerror(why)};
  }
  std::int64_t free_bytes(const std::string& dir) override {
    struct statvfs fs {};
    if (statvfs(dir.c_str(), &fs) != 0) return 0;
    return static_cast<std::int64_t>(fs.f_bavail) * static_cast<std::int64_t>(fs.f_frsize);
  }
  bool remove(const std::string& path) override { return unlink(path.c_str()) == 0; }
  void allocate(const std::string& path, std::int64_t bytes) override {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    (void)posix_fallocate(fd, 0, bytes);
    close(fd);
  }
  std::string boot_id() override {
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return {};
    char text[64];
    const ssize_t n = read(fd, text, sizeof text);
    close(fd);
    std::string id(text, static_cast<std::size_t>(n > 0 ? n : 0));
    while (!id.empty() && id.back() == '\n') id.pop_back();
    return id;
  }
  void pause_ms(int ms) override {
    const timespec pause{ms / 1000, (ms % 1000) * 1'000'000L};
    nanosleep(&pause, nullptr);
  }
};

}  // namespace

Disk& real_disk() {
  static RealDisk disk;
  return disk;
}

}  // namespace holdfast::store
