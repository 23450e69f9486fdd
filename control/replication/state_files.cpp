#include "control/replication/state_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "control/store/disk.h"
#include "control/store/files.h"

namespace holdfast::replication {
namespace {

namespace fs = std::filesystem;

Error io_error(const std::string& what) {
  return {Errc::kIo, what + ": " + std::strerror(errno)};
}

class MachineCopyFile final : public CopyFile {
 public:
  MachineCopyFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~MachineCopyFile() override { close(fd_); }
  MachineCopyFile(const MachineCopyFile&) = delete;
  MachineCopyFile& operator=(const MachineCopyFile&) = delete;

  Result<void> write(std::int64_t at, std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return io_error("write " + path_);
      bytes.remove_prefix(static_cast<std::size_t>(n));
      at += n;
    }
    return {};
  }
  Result<void> truncate(std::int64_t size) override {
    if (ftruncate(fd_, size) != 0) return io_error("truncate " + path_);
    return {};
  }
  Result<void> sync() override {
    if (fdatasync(fd_) != 0) return io_error("sync " + path_);
    return {};
  }

 private:
  int fd_;
  std::string path_;
};

class MachineFiles final : public StateFiles {
 public:
  Result<void> begin_folder(const std::string& folder) override {
    std::error_code failed;
    fs::remove_all(folder, failed);
    if (!fs::create_directory(folder, failed)) {
      return Error{Errc::kIo, "make " + folder + ": " + failed.message()};
    }
    return {};
  }
  Result<std::unique_ptr<CopyFile>> make_file(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return io_error("make " + path);
    return std::unique_ptr<CopyFile>(std::make_unique<MachineCopyFile>(fd, path));
  }
  bool exists(const std::string& path) override { return access(path.c_str(), F_OK) == 0; }
  Result<void> remove(const std::string& path) override {
    if (unlink(path.c_str()) != 0) return io_error("remove " + path);
    return {};
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    if (std::rename(from.c_str(), to.c_str()) != 0) return io_error("rename " + from);
    return {};
  }
  Result<void> sync_file(const std::string& path) override { return store::sync_file(path); }
  Result<void> sync_directory(const std::string& folder) override {
    return store::sync_directory(folder);
  }
  std::optional<std::string> read(const std::string& path) override {
    std::ifstream file(path);
    if (!file) return std::nullopt;
    return std::string((std::istreambuf_iterator<char>(file)), {});
  }
  std::string boot_id() override { return store::real_disk().boot_id(); }
};

}  // namespace

StateFiles& machine_files() {
  static MachineFiles files;
  return files;
}

}  // namespace holdfast::replication
