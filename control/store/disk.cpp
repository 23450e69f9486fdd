#include "control/store/disk.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "shared/base/clock.h"

namespace holdfast::store {
namespace {

class RealFile final : public DiskFile {
 public:
  explicit RealFile(int fd) : fd_(fd) {}
  ~RealFile() override { close(fd_); }
  RealFile(const RealFile&) = delete;
  std::string read(std::int64_t at, std::size_t bytes) override {
    std::string read(bytes, '\0');
    const ssize_t n = pread(fd_, read.data(), bytes, at);
    read.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    return read;
  }
  bool write(std::int64_t at, std::string_view bytes) override {
    return pwrite(fd_, bytes.data(), bytes.size(), at) == static_cast<ssize_t>(bytes.size());
  }
  bool sync() override { return fdatasync(fd_) == 0; }

 private:
  int fd_;
};

class RealDisk final : public Disk {
 public:
  const char* vfs() const override { return nullptr; }
  bool is_machines() const override { return true; }
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
  std::int64_t growth_allowed(const std::string& path) override {
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT64_MAX;
    struct stat info {};
    const std::int64_t size = stat(path.c_str(), &info) == 0 ? info.st_size : 0;
    return std::max<std::int64_t>(static_cast<std::int64_t>(limit.rlim_cur) - size, 0);
  }
  bool remove(const std::string& path) override { return unlink(path.c_str()) == 0; }
  void allocate(const std::string& path, std::int64_t bytes) override {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    (void)posix_fallocate(fd, 0, bytes);
    close(fd);
  }
  std::unique_ptr<DiskFile> open_file(const std::string& path, std::int64_t bytes) override {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return nullptr;
    auto file = std::make_unique<RealFile>(fd);
    struct stat info {};
    if (fstat(fd, &info) != 0) return nullptr;
    if (info.st_size < bytes) {
      // Zeros that are written have their blocks, so overwriting them needs no more space.
      const std::string zeros(static_cast<std::size_t>(bytes - info.st_size), '\0');
      if (!file->write(info.st_size, zeros) || fsync(fd) != 0) return nullptr;
    }
    return file;
  }
  std::uint64_t inode(const std::string& path) override {
    struct stat info {};
    return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
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
  std::int64_t wall_ms() override { return system_clock().wall_ms(); }
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
