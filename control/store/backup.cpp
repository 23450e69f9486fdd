#include "control/store/backup.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "control/store/files.h"

namespace holdfast::store {
namespace {

constexpr int kPagesPerStep = 256;

constexpr std::string_view kNote = "control.backup-";
constexpr std::string_view kCheck = "check-";  // PID.db: the copy that `db check` reads

std::string part_of(const std::string& path) {
  return path + ".part";
}

/// Returns true if the process has ended. pidfd_open tells, as the daemon may not signal others,
/// not even with 0.
bool has_ended(pid_t pid) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd >= 0) close(fd);
  return fd < 0 && errno == ESRCH;
}

/// Removes a database file with its journal, log and index. A journal that stayed would be played
/// into the next file of that name.
void remove_database(const std::string& path) {
  for (const char* end : {"", "-journal", "-wal", "-shm"}) unlink((path + end).c_str());
}

/// Makes a new file of the state directory that names the copy, and returns its path. Empty if it
/// cannot be made: the backup, perhaps to another disk, is worth more.
std::string make_note(const std::string& state_dir, const std::string& part) {
  std::error_code failed;
  const std::string text = std::filesystem::absolute(part, failed).string();
  for (int i = 0; i < 1000; ++i) {
    const std::string path = state_dir + "/" + std::string(kNote) + std::to_string(i);
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return {};
    const bool ok = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                    fsync(fd) == 0 && sync_directory(state_dir).has_value();
    close(fd);
    if (ok) return path;
    unlink(path.c_str());
    return {};
  }
  return {};
}

}  // namespace

void remove_unfinished(const std::string& state_dir) {
  // A complete one has no name any more (control/daemon/outgoing_file.h).
  remove_database(outgoing_path(state_dir));
  std::error_code failed;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(state_dir, failed)) {
    names.push_back(entry.path().filename().string());
  }
  for (const std::string& name : names) {
    const std::string path = state_dir + "/" + name;
    if (name.starts_with(kNote)) {
      std::ifstream note(path, std::ios::binary);
      const std::string part{std::istreambuf_iterator<char>(note), {}};
      if (part.ends_with(part_of(""))) remove_database(part);
      unlink(path.c_str());
    } else if (name.starts_with(kCheck) && name.find(".db") != std::string::npos) {
      const pid_t pid = std::atoi(name.c_str() + kCheck.size());
      if (pid > 0 && has_ended(pid)) unlink(path.c_str());
    }
  }
}

Result<std::unique_ptr<Backup>> Backup::begin(sqlite3* source, const std::string& state_dir,
                                              const std::string& path) {
  if (access(path.c_str(), F_OK) == 0) {
    return Error{Errc::kIo, "backup to " + path + ": the file exists; choose another name"};
  }
  std::unique_ptr<Backup> backup(new Backup);
  backup->report_.path = path;
  HOLDFAST_TRY(backup->page_bytes_, query_int(source, "PRAGMA page_size"));
  const std::string part = part_of(path);
  remove_database(part);
  backup->note_ = make_note(state_dir, part);
  int rc = sqlite3_open_v2(
      part.c_str(), &backup->copy_,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      nullptr);
  if (rc != SQLITE_OK) return sqlite_error(backup->copy_, rc, "backup to " + path);
  chmod_private(part);
  sqlite3* copy = backup->copy_;
  backup->backup_ = sqlite3_backup_init(copy, "main", source, "main");
  const bool ready = backup->backup_ != nullptr;
  if (!ready) return sqlite_error(copy, sqlite3_errcode(copy), path);  // unreached: out of memory
  return backup;
}

Backup::~Backup() {
  sqlite3_backup_finish(backup_);
  sqlite3_close_v2(copy_);
  if (!named_) remove_database(part_of(report_.path));
  if (!note_.empty()) unlink(note_.c_str());
}

Result<bool> Backup::step() {
  const int rc = sqlite3_backup_step(backup_, kPagesPerStep);
  if (rc == SQLITE_OK || rc == SQLITE_BUSY) return false;
  if (rc == SQLITE_LOCKED) return false;  // unreached: documented, but SQLite says BUSY instead
  // The source connection does not know the message of this error before the copy is given up.
  if (rc != SQLITE_DONE) return sqlite_error(nullptr, rc, "backup to " + report_.path);
  report_.pages = sqlite3_backup_pagecount(backup_);
  HOLDFAST_CHECKED(finish());
  return true;
}

Backup::Progress Backup::progress() const {
  if (backup_ == nullptr) return {report_.bytes, report_.bytes};
  const std::int64_t pages = sqlite3_backup_pagecount(backup_);
  return {(pages - sqlite3_backup_remaining(backup_)) * page_bytes_, pages * page_bytes_};
}

Result<void> Backup::finish() {
  // After SQLITE_DONE there is nothing left to fail.
  (void)sqlite3_backup_finish(std::exchange(backup_, nullptr));
  // The copy's header says WAL; as a file of its own it needs no log.
  HOLDFAST_CHECKED(exec(copy_, "PRAGMA journal_mode=DELETE"));
  sqlite3_close_v2(std::exchange(copy_, nullptr));
  const std::string part = part_of(report_.path);
  HOLDFAST_CHECKED(sync_file(part));
  if (rename(part.c_str(), report_.path.c_str()) != 0) {
    return Error{Errc::kIo,
                 "backup: rename " + part + " to " + report_.path + ": " + std::strerror(errno)};
  }
  named_ = true;
  HOLDFAST_CHECKED(sync_directory_of(report_.path));
  if (!note_.empty()) unlink(std::exchange(note_, {}).c_str());
  std::error_code ignored;
  report_.bytes = static_cast<std::int64_t>(std::filesystem::file_size(report_.path, ignored));
  return {};
}

}  // namespace holdfast::store
