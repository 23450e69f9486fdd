#pragma once
// The file of a backup that comes from elsewhere: it grows as PATH.part and has its name once it is
// whole.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::cli {

/// The growing file. One thread.
class BackupFile {
 public:
  /// Begins PATH.part, for its owner alone. kIo: PATH exists, or the folder cannot be written to.
  /// kConflict: another process writes it now.
  static Result<std::unique_ptr<BackupFile>> create(const std::string& path);
  ~BackupFile();  // removes PATH.part if it did not get its name
  BackupFile(const BackupFile&) = delete;
  BackupFile& operator=(const BackupFile&) = delete;

  /// Begins the content anew, which will have so many bytes. kDiskFull if the disk has no space.
  Result<void> begin(std::int64_t bytes);
  /// kDiskFull, kIo.
  Result<void> write(std::string_view bytes);
  /// Syncs the content. kIo.
  Result<void> sync();
  /// Gives it its name; never replaces a file. kIo.
  Result<void> finish();
  const std::string& part() const { return part_; }

 private:
  BackupFile(std::string path, int fd) : path_(std::move(path)), part_(path_ + ".part"), fd_(fd) {}
  Error error(const std::string& what) const;

  const std::string path_, part_;
  int fd_;
  bool named_ = false;
};

/// Writes all bytes to a descriptor. kDiskFull, kIo with `name`.
Result<void> write_all(int fd, std::string_view bytes, const std::string& name);

}  // namespace holdfast::cli
