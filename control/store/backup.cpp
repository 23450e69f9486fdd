#include "control/store/backup.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "control/store/files.h"

namespace holdfast::store {
namespace {

constexpr int kPagesPerStep = 256;

std::string part_of(const std::string& path) {
  return path + ".part";
}

}  // namespace

Result<std::unique_ptr<Backup>> Backup::begin(sqlite3* source, const std::string& path) {
  if (access(path.c_str(), F_OK) == 0) {
    return Error{Errc::kIo, "backup to " + path + ": the file exists; choose another name"};
  }
  std::unique_ptr<Backup> backup(new Backup);
  backup->report_.path = path;
  const std::string part = part_of(path);
  unlink(part.c_str());
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
  if (!named_) unlink(part_of(report_.path).c_str());
}

Result<bool> Backup::step() {
  const int rc = sqlite3_backup_step(backup_, kPagesPerStep);
  if (rc == SQLITE_OK || rc == SQLITE_BUSY) return false;
  if (rc == SQLITE_LOCKED) return false;  // unreached: documented, but SQLite says BUSY instead
  // The connection does not know the words of this one before the copy is given up.
  if (rc != SQLITE_DONE) return sqlite_error(nullptr, rc, "backup to " + report_.path);
  report_.pages = sqlite3_backup_pagecount(backup_);
  HF_CHECKED(finish());
  return true;
}

Result<void> Backup::finish() {
  // After SQLITE_DONE there is nothing left to fail.
  (void)sqlite3_backup_finish(std::exchange(backup_, nullptr));
  // The copy says WAL in its header; as a file of its own it needs no log beside it.
  HF_CHECKED(exec(copy_, "PRAGMA journal_mode=DELETE"));
  sqlite3_close_v2(std::exchange(copy_, nullptr));
  const std::string part = part_of(report_.path);
  HF_CHECKED(sync_file(part));
  if (rename(part.c_str(), report_.path.c_str()) != 0) {
    return Error{Errc::kIo,
                 "backup: rename " + part + " to " + report_.path + ": " + std::strerror(errno)};
  }
  named_ = true;
  HF_CHECKED(sync_directory_of(report_.path));
  std::error_code ignored;
  report_.bytes = static_cast<std::int64_t>(std::filesystem::file_size(report_.path, ignored));
  return {};
}

}  // namespace holdfast::store
