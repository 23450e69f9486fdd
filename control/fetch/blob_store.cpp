#include "control/fetch/blob_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "control/fetch/disk.h"
#include "shared/base/crash_point.h"
#include "shared/base/roots.h"
#include "shared/pull/blob.h"

namespace holdfast::fetch {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSyncBytes = 64 << 20;  // written before they are made safe: even load
constexpr const char* kPart = ".part";

Error not_here(const std::string& digits) {
  return {Errc::kNotFound, "blob sha256:" + digits +
                               " was not sent to this server: POST /api/blobs/sha256:" + digits};
}

/// Copies without passing the bytes through this process, where the disk can.
Result<void> copy_file(const std::string& from, const std::string& to) {
  const std::string part = to + kPart;
  std::error_code error;
  fs::copy_file(from, part, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(part, to, error);
  if (!error) return {};
  errno = error.value();
  Error failed = file_error("copy", to, -1);
  unlink(part.c_str());
  return failed;
}

}  // namespace

BlobWriter::BlobWriter(int fd, std::string part, std::string path, std::string digits)
    : fd_(fd),
      part_(std::move(part)),
      path_(std::move(path)),
      digits_(std::move(digits)),
      hash_(FileHash::Kind::kSha256, 0) {}

BlobWriter::~BlobWriter() {
  close(fd_);
  if (!named_) unlink(part_.c_str());
}

Result<void> BlobWriter::add(std::string_view bytes) {
  hash_.add(bytes);
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd_, bytes.data(), bytes.size(), bytes_);
    if (written <= 0) return file_error("write", part_, -1);
    bytes_ += written;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  if (bytes_ - synced_ < kSyncBytes) return {};
  if (fdatasync(fd_) != 0) return file_error("sync", part_, -1);
  synced_ = bytes_;
  return {};
}

Result<void> BlobWriter::finish() {
  const std::string found = hash_.hex();
  if (found != digits_) {
    return Error{Errc::kInvalidRequest, "digest mismatch: expected sha256:" + digits_ + ", the " +
                                            std::to_string(bytes_) + " bytes that came have " +
                                            "sha256:" + found};
  }
  if (fsync(fd_) != 0) return file_error("sync", part_, -1);
  crash_point(CrashPoint::kFetcherFileVerified);
  if (rename(part_.c_str(), path_.c_str()) != 0) return file_error("rename", part_, -1);
  named_ = true;
  sync_folder(path_);
  crash_point(CrashPoint::kFetcherFileNamed);
  return {};
}

std::string BlobStore::path_of(const std::string& digits) const {
  return models_dir_ + "/" + std::string(pull::kBlobFolder) + "/" + pull::blob_name(digits);
}

void BlobStore::clean_up() const {
  std::error_code error;
  const fs::path folder = models_dir_ + "/" + std::string(pull::kBlobFolder);
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == kPart) unlink(at->path().c_str());
  }
}

Result<std::int64_t> BlobStore::find(const std::string& digits) const {
  struct stat status {};
  const bool there = lstat(path_of(digits).c_str(), &status) == 0 && S_ISREG(status.st_mode);
  if (!there) return not_here(digits);
  return static_cast<std::int64_t>(status.st_size);
}

Result<std::unique_ptr<BlobWriter>> BlobStore::begin(const std::string& digits,
                                                     std::int64_t bytes) {
  const std::string path = path_of(digits);
  if (const auto roots = read_roots(run_dir_)) HOLDFAST_CHECKED(allowed_by_roots(path, *roots));
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const std::string part = path + "." + std::to_string(number_++) + kPart;
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return file_error("create", part, bytes);
  auto writer = std::make_unique<BlobWriter>(fd, part, path, digits);
  const bool full = bytes > 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, bytes) != 0 &&
                    (errno == ENOSPC || errno == EDQUOT);
  if (full) return disk_full(part, bytes);
  return writer;
}

Result<void> BlobStore::name(const std::string& digits, const std::string& path) const {
  const std::string from = path_of(digits);
  if (access(path.c_str(), F_OK) == 0) return {};
  HOLDFAST_CHECKED(find(digits));
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (link(from.c_str(), path.c_str()) == 0 || errno == EEXIST) return {};
  return copy_file(from, path);
}

}  // namespace holdfast::fetch
