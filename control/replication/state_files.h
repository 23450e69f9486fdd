#pragma once
// The files of a state directory that a standby writes: the copy of the database and the note about
// it. A simulation brings its own.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::replication {

/// An open file of a copy. All methods: kIo with path and cause.
class CopyFile {
 public:
  virtual ~CopyFile() = default;
  virtual Result<void> write(std::int64_t at, std::string_view bytes) = 0;
  virtual Result<void> truncate(std::int64_t size) = 0;
  virtual Result<void> sync() = 0;
};

/// The files by their paths. What can fail: kIo with path and cause. A new name is on the disk once
/// its folder is synced.
class StateFiles {
 public:
  /// Makes a folder that has no files; those of an earlier one are removed.
  virtual Result<void> begin_folder(const std::string& folder) = 0;
  /// Makes a file without content, or empties one.
  virtual Result<std::unique_ptr<CopyFile>> make_file(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  virtual Result<void> remove(const std::string& path) = 0;
  virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  virtual Result<void> sync_file(const std::string& path) = 0;
  virtual Result<void> sync_directory(const std::string& folder) = 0;
  /// nullopt: there is no such file.
  virtual std::optional<std::string> read(const std::string& path) = 0;
  /// Returns a text that differs after each boot of the machine.
  virtual std::string boot_id() = 0;

 protected:
  ~StateFiles() = default;  // nobody owns one by its base
};

/// The files of this machine. Thread-safe.
StateFiles& machine_files();

}  // namespace holdfast::replication
