#pragma once
// One file from a server to the disk, from wherever it was left. Bytes go to PATH.part, whose
// length is how far it is; only a file whose hash is right gets its name.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "control/fetch/file_hash.h"
#include "control/fetch/session.h"
#include "shared/base/result.h"
#include "shared/pull/job.h"

namespace holdfast::fetch {

/// Functions that a download calls while it runs, by which it is stopped too.
struct DownloadHooks {
  /// Called about twice a second and at each change of phase. False ends the download.
  std::function<bool()> on_progress;
};

/// The progress of one file.
struct DownloadProgress {
  std::int64_t on_disk = 0;  // bytes of PATH.part
  std::int64_t synced = 0;   // of them safe against a power failure
  std::int64_t fetched = 0;  // received by this call
  bool hashing = false;      // reading what is on the disk
};

/// Downloads one file to `path`. Not thread-safe.
class Download {
 public:
  /// `trusted`: bytes of PATH.part that may be used, -1: all of them (nothing was lost with power).
  Download(Session& session, pull::PullFile& file, std::string path, std::int64_t trusted);
  ~Download();
  Download(const Download&) = delete;
  Download& operator=(const Download&) = delete;

  /// Runs until the file is in place. A file that is there with the right hash is left alone; while
  /// another download of this process brings the same one, this one waits.
  /// Errors: those of Session::get; kUnreachable: the connection ended early (worth another try,
  /// which goes on where this one ended); kDiskFull; kFileInvalid: another hash or length than
  /// was told, the bytes are deleted; kCancelled: a hook ended it.
  Result<void> run(const DownloadHooks& hooks);
  const DownloadProgress& progress() const { return progress_; }

 private:
  Result<void> run_alone();
  Result<void> fetch();
  Result<void> open_part();
  Result<void> reserve();
  Result<void> hash_part();
  Result<void> receive();
  bool accept_head(const http::Head& head);
  bool take_bytes(std::string_view bytes);
  Result<void> finish();
  Result<bool> is_complete();
  Result<void> sync();
  void begin_hash();
  bool tick(bool now = false);
  Error failed(const char* operation) const;

  Session& session_;
  pull::PullFile& file_;
  std::string path_, part_;
  std::int64_t trusted_;
  const DownloadHooks* hooks_ = nullptr;
  DownloadProgress progress_;
  std::unique_ptr<FileHash> hash_;
  int fd_ = -1;
  bool resumed_ = false;  // with bytes of an earlier try
  std::int64_t told_ms_ = 0;
  Error stop_;  // why a callback ended the transfer
  bool stopped_ = false;
};

/// Deletes PATH.part, unless a download of this process writes it.
void delete_part(const std::string& path);

}  // namespace holdfast::fetch
