#include "control/fetch/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "control/fetch/disk.h"
#include "control/fetch/file_hash.h"
#include "shared/base/clock.h"
#include "shared/base/crash_point.h"

namespace holdfast::fetch {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadBytes = 1 << 20;
constexpr std::int64_t kSyncBytes = 64 << 20;  // at most so many are read again after a reboot
constexpr std::int64_t kTickMs = 500;
constexpr int kPartialContent = 206;

std::int64_t now_ms() {
  return system_clock().monotonic_us() / 1000;
}

/// Reads a decimal number at the end of `text` after `mark`; -1 if there is none.
std::int64_t number_after(const std::string& text, char mark) {
  const std::size_t at = text.rfind(mark);
  std::int64_t number = -1;
  const char* begin = text.data() + (at == std::string::npos ? 0 : at + 1);
  const char* end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(begin, end, number);
  return failed == std::errc() && stop == end && stop != begin ? number : -1;
}

/// The first byte that "bytes 100-199/200" names; -1 if it names none.
std::int64_t first_byte(const std::string& range) {
  std::int64_t number = -1;
  const std::size_t at = range.find_first_of("0123456789");
  if (at == std::string::npos) return -1;
  std::from_chars(range.data() + at, range.data() + range.size(), number);
  return number;
}

/// The files that this process is bringing: two pulls of one source want the same one.
class PathClaims {
 public:
  /// False: another download has it.
  bool take(const std::string& path) {
    const std::lock_guard lock(mutex_);
    return paths_.insert(path).second;
  }
  void give_back(const std::string& path) {
    const std::lock_guard lock(mutex_);
    paths_.erase(path);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> paths_;
};

PathClaims& path_claims() {
  static PathClaims claims;
  return claims;
}

}  // namespace

void delete_part(const std::string& path) {
  if (!path_claims().take(path)) return;  // another pull writes it
  unlink((path + ".part").c_str());
  path_claims().give_back(path);
}

Download::Download(Session& session, pull::PullFile& file, std::string path, std::int64_t trusted)
    : session_(session),
      file_(file),
      path_(std::move(path)),
      part_(path_ + ".part"),
      trusted_(trusted) {}

Download::~Download() {
  if (fd_ >= 0) close(fd_);
}

Error Download::failed(const char* operation) const {
  return file_error(operation, part_, file_.bytes - progress_.on_disk);
}

bool Download::tick(bool now) {
  const std::int64_t at = now_ms();
  if (!now && at - told_ms_ < kTickMs) return true;
  told_ms_ = at;
  return !hooks_->on_progress || hooks_->on_progress();
}

void Download::begin_hash() {
  const bool git = file_.sha256.empty() && !file_.git_sha1.empty();
  hash_ = std::make_unique<FileHash>(git ? FileHash::Kind::kGitSha1 : FileHash::Kind::kSha256,
                                     file_.bytes);
}

/// Opens PATH.part and forgets what of it cannot be right.
Result<void> Download::open_part() {
  std::error_code error;
  fs::create_directories(fs::path(path_).parent_path(), error);
  fd_ = open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd_ < 0) return failed("open");
  struct stat status {};
  if (fstat(fd_, &status) != 0) return failed("stat");
  std::int64_t usable = status.st_size;
  if (trusted_ >= 0) usable = std::min(usable, trusted_);
  // Without a hash or a tag nothing tells whether the rest is of the same file.
  const bool verifiable = !file_.sha256.empty() || !file_.git_sha1.empty() || !file_.etag.empty();
  if (!verifiable || (file_.bytes >= 0 && usable > file_.bytes)) usable = 0;
  if (usable < status.st_size && ftruncate(fd_, usable) != 0) return failed("truncate");
  progress_.on_disk = usable;
  resumed_ = usable > 0;
  return {};
}

/// Takes the disk's blocks before the first byte: a pull does not end for room in its middle.
Result<void> Download::reserve() {
  if (file_.bytes <= 0) return {};
  if (fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, file_.bytes) == 0) return {};
  if (errno == ENOSPC || errno == EDQUOT) {
    return disk_full(part_, file_.bytes - progress_.on_disk);
  }
  return {};  // a file system without reservations
}

/// Computes the hash of what is on the disk.
Result<void> Download::hash_part() {
  begin_hash();
  progress_.hashing = true;
  std::vector<char> buffer(kReadBytes);
  for (std::int64_t at = 0; at < progress_.on_disk;) {
    const auto part_bytes = std::min<std::int64_t>(kReadBytes, progress_.on_disk - at);
    const ssize_t got = pread(fd_, buffer.data(), static_cast<std::size_t>(part_bytes), at);
    if (got <= 0) return failed("read");
    hash_->add({buffer.data(), static_cast<std::size_t>(got)});
    at += got;
    if (!tick()) return Error{Errc::kCancelled, "ended"};
  }
  progress_.hashing = false;
  return {};
}

Result<void> Download::sync() {
  if (fdatasync(fd_) != 0) return failed("sync");
  progress_.synced = progress_.on_disk;
  return {};
}

/// Judges the answer's head. A server that does not know ranges begins again.
bool Download::accept_head(const http::Head& head) {
  const std::string range = head.header("content-range");
  const bool partial = head.status == kPartialContent;
  const std::int64_t whole =
      partial ? number_after(range, '/') : number_after(head.header("content-length"), '\0');
  const auto stop = [&](Errc code, const std::string& why) {
    stop_ = {code, "GET " + http::without_query(file_.url) + ": " + why};
    stopped_ = true;
    return false;
  };
  if (partial && first_byte(range) != progress_.on_disk) {
    return stop(Errc::kInvalidRequest, "another range than was asked for: \"" + range + "\"");
  }
  if (!partial && progress_.on_disk > 0) {
    if (ftruncate(fd_, 0) != 0) return stop_ = failed("truncate"), stopped_ = true, false;
    progress_.on_disk = progress_.synced = 0;
    resumed_ = false;
  }
  if (file_.bytes < 0) file_.bytes = whole;
  if (file_.bytes < 0) return stop(Errc::kUnsupported, "the server does not tell the length");
  if (whole >= 0 && whole != file_.bytes) {
    return stop(Errc::kFileInvalid,
                std::to_string(whole) + " bytes, expected " + std::to_string(file_.bytes));
  }
  if (file_.sha256.empty() && file_.git_sha1.empty()) file_.etag = head.header("etag");
  if (progress_.on_disk == 0) begin_hash();
  if (auto reserved = reserve(); !reserved) {
    return stop_ = reserved.error(), stopped_ = true, false;
  }
  return true;
}

bool Download::take_bytes(std::string_view bytes) {
  const auto stop = [&](Error error) {
    stop_ = std::move(error);
    stopped_ = true;
    return false;
  };
  if (progress_.on_disk + static_cast<std::int64_t>(bytes.size()) > file_.bytes) {
    return stop({Errc::kFileInvalid, "GET " + http::without_query(file_.url) +
                                         ": more bytes than the " + std::to_string(file_.bytes) +
                                         " that were told"});
  }
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t written = pwrite(fd_, bytes.data() + done, bytes.size() - done,
                                   progress_.on_disk + static_cast<std::int64_t>(done));
    if (written <= 0) return stop(failed("write"));
    done += static_cast<std::size_t>(written);
  }
  hash_->add(bytes);
  progress_.on_disk += static_cast<std::int64_t>(bytes.size());
  progress_.fetched += static_cast<std::int64_t>(bytes.size());
  crash_point(CrashPoint::kFetcherBytesWritten);
  if (progress_.on_disk - progress_.synced >= kSyncBytes) {
    if (auto synced = sync(); !synced) return stop(synced.error());
  }
  return tick() || stop({Errc::kCancelled, "ended"});
}

/// Reads what is missing.
Result<void> Download::receive() {
  if (file_.bytes >= 0 && progress_.on_disk == file_.bytes) return {};
  http::Request request;
  request.url = file_.url;
  request.from = progress_.on_disk;
  if (request.from > 0 && !file_.etag.empty()) request.headers.push_back("If-Range: " + file_.etag);
  request.on_head = [this](const http::Head& head) { return accept_head(head); };
  request.on_bytes = [this](std::string_view bytes) { return take_bytes(bytes); };
  const auto head = session_.get(request);
  if (stopped_) return stop_;
  if (!head) return head.error();
  if (progress_.on_disk == file_.bytes) return {};
  return Error{Errc::kUnreachable,
               "GET " + http::without_query(file_.url) + ": the connection ended at byte " +
                   std::to_string(progress_.on_disk) + " of " + std::to_string(file_.bytes)};
}

/// Compares the hash and gives the file its name.
Result<void> Download::finish() {
  HOLDFAST_CHECKED(sync());
  const std::string found = hash_->hex();
  const std::string& expected = file_.sha256.empty() ? file_.git_sha1 : file_.sha256;
  if (!expected.empty() && found != expected) {
    unlink(part_.c_str());
    progress_.on_disk = progress_.synced = 0;
    return Error{Errc::kFileInvalid, file_.path + ": the bytes have the hash " + found +
                                         ", expected " + expected + "; they were deleted"};
  }
  if (expected.empty()) file_.sha256 = found;
  crash_point(CrashPoint::kFetcherFileVerified);
  if (rename(part_.c_str(), path_.c_str()) != 0) return failed("rename");
  sync_folder(path_);
  crash_point(CrashPoint::kFetcherFileNamed);
  file_.done = true;
  return {};
}

/// True if the file is there and has the hash.
Result<bool> Download::is_complete() {
  const std::string& expected = file_.sha256.empty() ? file_.git_sha1 : file_.sha256;
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  struct stat status {};
  const bool same_length = fstat(fd, &status) == 0 && status.st_size == file_.bytes;
  if (!same_length || expected.empty()) {
    close(fd);
    return false;
  }
  fd_ = fd;
  progress_.on_disk = status.st_size;
  const auto hashed = hash_part();
  close(std::exchange(fd_, -1));
  progress_.on_disk = 0;
  if (!hashed) return hashed.error();
  return hash_->hex() == expected;
}

Result<void> Download::run(const DownloadHooks& hooks) {
  hooks_ = &hooks;
  while (!path_claims().take(path_)) {
    if (!tick(true)) return Error{Errc::kCancelled, "ended"};
    std::this_thread::sleep_for(std::chrono::milliseconds(kTickMs));
  }
  auto done = run_alone();
  path_claims().give_back(path_);
  return done;
}

/// Runs while no other download writes the file.
Result<void> Download::run_alone() {
  HOLDFAST_TRY(const bool there, is_complete());
  if (there) {
    progress_.on_disk = progress_.synced = file_.bytes;
    file_.done = true;
    return {};
  }
  auto done = fetch();
  // Bytes that are of another file are of no use, and an empty file is none.
  const bool useless = !done && (done.error().code == Errc::kFileInvalid || progress_.on_disk == 0);
  if (useless) unlink(part_.c_str());
  return done;
}

/// Brings the file here, going on with what an earlier try left.
Result<void> Download::fetch() {
  if (file_.url.empty()) {
    return Error{Errc::kFileInvalid,
                 path_ + ": other bytes than its hash " + file_.sha256 + " names; send it again"};
  }
  HOLDFAST_CHECKED(open_part());
  HOLDFAST_CHECKED(reserve());
  HOLDFAST_CHECKED(hash_part());
  if (!tick(true)) return Error{Errc::kCancelled, "ended"};
  const bool resumed = resumed_;
  HOLDFAST_CHECKED(receive());
  auto finished = finish();
  if (finished || finished.error().code != Errc::kFileInvalid || !resumed) return finished;
  // Bytes of an earlier try may have been damaged: once more, all of it.
  close(std::exchange(fd_, -1));
  HOLDFAST_CHECKED(open_part());
  HOLDFAST_CHECKED(hash_part());
  HOLDFAST_CHECKED(receive());
  return finish();
}

}  // namespace holdfast::fetch
