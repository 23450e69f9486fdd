#pragma once
// The blobs on the disk (shared/pull/blob.h): files named by their hash, which was compared before
// they got the name.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "control/fetch/file_hash.h"
#include "shared/base/result.h"

namespace holdfast::fetch {

/// A blob that is being written. Without finish() nothing of it stays. Not thread-safe.
class BlobWriter {
 public:
  /// Takes over `fd`, open at `part`.
  BlobWriter(int fd, std::string part, std::string path, std::string digits);
  ~BlobWriter();
  BlobWriter(const BlobWriter&) = delete;
  BlobWriter& operator=(const BlobWriter&) = delete;

  /// Errors: kDiskFull, kIo.
  Result<void> add(std::string_view bytes);
  /// Compares the hash, makes the bytes safe and gives them their name. kInvalidRequest: they have
  /// another hash.
  Result<void> finish();
  std::int64_t bytes() const { return bytes_; }

 private:
  int fd_;
  std::string part_, path_, digits_;
  FileHash hash_;
  std::int64_t bytes_ = 0;
  std::int64_t synced_ = 0;
  bool named_ = false;
};

/// The folder of blobs. Thread-safe.
class BlobStore {
 public:
  /// `models_dir`: the folder of models, absolute. `run_dir`: where the daemon says where models
  /// may lie.
  BlobStore(std::string models_dir, std::string run_dir)
      : models_dir_(std::move(models_dir)), run_dir_(std::move(run_dir)) {}

  /// Deletes what a process that ended had begun. To be called before the first begin().
  void clean_up() const;
  /// Returns the blob's bytes; kNotFound if it is not here.
  Result<std::int64_t> find(const std::string& digits) const;
  /// Begins a blob of `bytes` bytes, for which the disk must have space; -1: the length is not
  /// known. kUnauthorized if models may not lie here, kDiskFull, kIo.
  Result<std::unique_ptr<BlobWriter>> begin(const std::string& digits, std::int64_t bytes);
  /// Gives the blob a further name: `path`, absolute, below the folder of models. Nothing happens
  /// if there is such a file. kNotFound: there is no such blob; kDiskFull, kIo. Blocks for as long
  /// as a copy takes, where the disk has no second names.
  Result<void> name(const std::string& digits, const std::string& path) const;

 private:
  std::string path_of(const std::string& digits) const;
  const std::string models_dir_, run_dir_;
  std::atomic<std::uint64_t> number_ = 0;  // of the next part
};

}  // namespace holdfast::fetch
