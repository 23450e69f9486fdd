#include "control/replication/copied_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "control/replication/change_list.h"
#include "control/replication/standby_note.h"
#include "control/store/files.h"

namespace holdfast::replication {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"control.db", "control.db-wal"};
// Files that belong to a database, and are of no use with another one.
constexpr const char* kCompanions[] = {"control.db", "control.db-wal", "control.db-shm",
                                       "control.mark"};

Error io_error(const std::string& what) {
  return {Errc::kIo, what + ": " + std::strerror(errno)};
}

Result<void> write_all(int fd, std::string_view bytes, std::int64_t at, const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd, bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return io_error("write " + what);
    bytes.remove_prefix(static_cast<std::size_t>(n));
    at += n;
  }
  return {};
}

}  // namespace

CopiedFiles::~CopiedFiles() {
  close();
}

void CopiedFiles::close() {
  for (int& fd : files_) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
}

Result<void> CopiedFiles::begin() {
  close();
  const std::string folder = state_dir_ + "/copy";
  std::error_code failed;
  fs::remove_all(folder, failed);
  if (!fs::create_directory(folder, failed)) {
    return Error{Errc::kIo, "make " + folder + ": " + failed.message()};
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string path = folder + "/" + kNames[i];
    files_[i] = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (files_[i] < 0) return io_error("make " + path);
  }
  return {};
}

Result<void> CopiedFiles::apply(std::string_view changes) {
  ChangeReader reader(changes);
  while (!reader.at_end()) {
    HOLDFAST_TRY(const Change change, reader.next());
    const auto index = static_cast<std::size_t>(change.file);
    if (change.truncates) {
      if (ftruncate(files_[index], change.at) != 0) {
        return io_error(std::string("truncate ") + kNames[index]);
      }
      continue;
    }
    HOLDFAST_CHECKED(write_all(files_[index], change.bytes, change.at, kNames[index]));
  }
  return {};
}

Result<void> CopiedFiles::sync() {
  // The log first: pages that a checkpoint moved are in it too, until it begins anew.
  for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    if (fdatasync(files_[i]) != 0) return io_error(std::string("sync ") + kNames[i]);
  }
  return {};
}

Result<void> CopiedFiles::complete() {
  HOLDFAST_CHECKED(sync());
  const auto note = read_standby_note(state_dir_);
  const bool was_copy = note && note->is_standby;
  std::error_code failed;
  const std::string before = state_dir_ + "/before-standby";
  if (!was_copy && fs::exists(state_dir_ + "/control.db")) {
    fs::remove_all(before, failed);
    fs::create_directory(before, failed);
  }
  for (const char* name : kCompanions) {
    const std::string path = state_dir_ + "/" + name;
    if (!fs::exists(path)) continue;
    if (was_copy) {
      fs::remove(path, failed);
    } else {
      fs::rename(path, before + "/" + name, failed);
    }
    if (failed) return Error{Errc::kIo, "move " + path + " away: " + failed.message()};
  }
  for (const char* name : {kNames[1], kNames[0]}) {
    fs::rename(state_dir_ + "/copy/" + name, state_dir_ + "/" + name, failed);
    if (failed) return Error{Errc::kIo, std::string("rename ") + name + ": " + failed.message()};
  }
  return store::sync_directory(state_dir_);
}

}  // namespace holdfast::replication
