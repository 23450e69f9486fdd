#pragma once
// A complete file that is read by a peer elsewhere: hashed and read on a thread of its own, as a
// disk may be slow and hashing takes a second for each gigabyte. The daemon's thread asks and
// collects.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "control/core/types.h"
#include "shared/base/result.h"

namespace holdfast::daemon {

/// A range of the file that a peer waits for.
struct FileRange {
  core::PeerId peer = 0;
  std::uint64_t tag = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};
/// The answer to it.
struct FileRangeAnswer {
  FileRange range;
  Result<std::string> content;
};

/// The file and its thread. One thread of the owner calls it.
class OutgoingFile {
 public:
  /// Opens the file and removes its name: it is gone with this object, or with the process. Then
  /// begins to hash it. `wake` is called on the other thread when there is an answer. kIo.
  static Result<std::unique_ptr<OutgoingFile>> open(const std::string& path,
                                                    std::function<void()> wake);
  ~OutgoingFile();  // ends the thread soon
  OutgoingFile(const OutgoingFile&) = delete;
  OutgoingFile& operator=(const OutgoingFile&) = delete;

  std::int64_t bytes() const { return bytes_; }
  std::int64_t hashed_bytes() const;
  /// Returns the SHA-256 of the file in hexadecimal digits; nullopt: it is in the making. kIo.
  std::optional<Result<std::string>> sha256() const;
  /// Reads a range of the file; CHECKs that it lies inside.
  void read(FileRange range);
  /// Returns what was read since the last call.
  std::vector<FileRangeAnswer> take();

 private:
  OutgoingFile(std::string path, int fd, std::int64_t bytes, std::function<void()> wake)
      : path_(std::move(path)), fd_(fd), bytes_(bytes), wake_(std::move(wake)) {}
  void run();
  void hash();
  bool note_hashed(std::int64_t bytes);
  Result<std::string> read_at(std::int64_t offset, std::int64_t bytes) const;

  const std::string path_;
  const int fd_;
  const std::int64_t bytes_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::int64_t hashed_bytes_ = 0;
  std::optional<Result<std::string>> sha_;
  std::deque<FileRange> ranges_;
  std::vector<FileRangeAnswer> answers_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace holdfast::daemon
