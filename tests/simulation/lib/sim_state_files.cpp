#include "tests/simulation/lib/sim_state_files.h"

#include <sqlite3.h>

#include <utility>
#include <vector>

namespace holdfast::simulation {
namespace {

Error io_error(const std::string& what) {
  return {Errc::kIo, what + ": the simulated disk fails"};
}

/// An open file until its process dies.
class SimCopyFile final : public replication::CopyFile {
 public:
  SimCopyFile(SimDisk& disk, std::shared_ptr<SimDisk::File> file, std::string path)
      : disk_(disk),
        file_(std::move(file)),
        path_(std::move(path)),
        generation_(disk.generation()) {}

  Result<void> write(std::int64_t at, std::string_view bytes) override {
    return done("write",
                lives() ? disk_.do_write(*file_, bytes.data(), static_cast<int>(bytes.size()), at)
                        : SQLITE_IOERR);
  }
  Result<void> truncate(std::int64_t size) override {
    return done("truncate", lives() ? disk_.do_truncate(*file_, size) : SQLITE_IOERR);
  }
  Result<void> sync() override {
    return done("sync", lives() ? disk_.do_sync(*file_) : SQLITE_IOERR);
  }

 private:
  bool lives() const { return generation_ == disk_.generation(); }
  Result<void> done(const char* what, int rc) const {
    if (rc == SQLITE_OK) return {};
    return io_error(what + (" " + path_));
  }

  SimDisk& disk_;
  std::shared_ptr<SimDisk::File> file_;
  std::string path_;
  std::uint64_t generation_;
};

}  // namespace

Result<void> SimStateFiles::begin_folder(const std::string& folder) {
  for (const std::string& path : disk_.paths()) {
    if (path.starts_with(folder + "/")) disk_.remove(path);
  }
  return {};
}

Result<std::unique_ptr<replication::CopyFile>> SimStateFiles::make_file(const std::string& path) {
  return std::unique_ptr<replication::CopyFile>(
      std::make_unique<SimCopyFile>(disk_, disk_.make_file(path), path));
}

Result<void> SimStateFiles::remove(const std::string& path) {
  disk_.remove(path);
  return {};
}

Result<void> SimStateFiles::rename(const std::string& from, const std::string& to) {
  return disk_.rename(from, to);
}

Result<void> SimStateFiles::sync_file(const std::string& path) {
  const auto file = disk_.open_file(path, false);
  if (file != nullptr && disk_.do_sync(*file) == SQLITE_OK) return {};
  return io_error("sync " + path);
}

Result<void> SimStateFiles::sync_directory(const std::string&) {
  disk_.sync_names();
  return {};
}

std::optional<std::string> SimStateFiles::read(const std::string& path) {
  if (!disk_.exists(path)) return std::nullopt;
  return disk_.peek(path, 0, 1 << 20);
}

}  // namespace holdfast::simulation
