#pragma once
// File system services that the store needs besides SQLite's own files. A simulation brings its own
// disk, with its own sqlite3_vfs.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::store {

/// A small file that stays open. Errors show as false or as fewer bytes.
class DiskFile {
 public:
  virtual ~DiskFile() = default;
  virtual std::string read(std::int64_t at, std::size_t bytes) = 0;
  virtual bool write(std::int64_t at, std::string_view bytes) = 0;
  virtual bool sync() = 0;
};

/// A disk and the system around it.
class Disk {
 public:
  /// Returns the name of a registered sqlite3_vfs; nullptr: SQLite's default.
  virtual const char* vfs() const = 0;
  /// True if the files are those of the machine, so that another process may lock or copy them.
  virtual bool is_machines() const { return false; }
  /// Writes a file's bytes over themselves and syncs it, so that the disk has what reads show. Does
  /// nothing if there is no such file. kIo with path and cause.
  virtual Result<void> rewrite(const std::string& path) = 0;
  /// Syncs a directory. kIo with path and cause.
  virtual Result<void> sync_directory(const std::string& dir) = 0;
  /// Returns the free bytes for this user; 0 if they are unknown.
  virtual std::int64_t free_bytes(const std::string& dir) = 0;
  /// Returns by how many bytes this process may make a file larger, however much space the disk has
  /// (RLIMIT_FSIZE).
  virtual std::int64_t growth_allowed(const std::string& /*path*/) { return INT64_MAX; }
  /// Removes a file. Returns false if there was none.
  virtual bool remove(const std::string& path) = 0;
  /// Makes a file of `bytes` with its blocks allocated; does nothing if it cannot.
  virtual void allocate(const std::string& path, std::int64_t bytes) = 0;
  /// Opens or makes a file of `bytes`, which then needs no more space; nullptr if it cannot, or if
  /// this disk has no such files.
  virtual std::unique_ptr<DiskFile> open_file(const std::string& /*path*/, std::int64_t /*bytes*/) {
    return nullptr;
  }
  /// Returns a number that tells a file from its copies; 0 if there is no file.
  virtual std::uint64_t inode(const std::string& /*path*/) { return 0; }
  virtual void pause_ms(int ms) = 0;
  /// Returns the time of day in ms since 1970.
  virtual std::int64_t wall_ms() { return 0; }
  /// Returns a text that differs after each boot of the machine; empty if it is unknown.
  virtual std::string boot_id() = 0;

 protected:
  ~Disk() = default;  // nobody owns one by its base
};

/// The machine's own disk. Thread-safe.
Disk& real_disk();

}  // namespace holdfast::store
