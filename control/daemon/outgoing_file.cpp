#include "control/daemon/outgoing_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "shared/base/check.h"
#include "shared/huggingface/sha256.h"

namespace holdfast::daemon {
namespace {

constexpr std::int64_t kHashBytes = 1 << 20;  // at a time

}  // namespace

Result<std::unique_ptr<OutgoingFile>> OutgoingFile::open(const std::string& path,
                                                         std::function<void()> wake) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto failed = [&] {
    return Error{Errc::kIo, "open the copy " + path + ": " + std::strerror(errno)};
  };
  if (fd < 0) return failed();
  unlink(path.c_str());
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    const Error error = failed();  // unreached: an open file
    close(fd);
    return error;
  }
  std::unique_ptr<OutgoingFile> file(
      new OutgoingFile(path, fd, static_cast<std::int64_t>(info.st_size), std::move(wake)));
  file->thread_ = std::thread([raw = file.get()] { raw->run(); });
  return file;
}

OutgoingFile::~OutgoingFile() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  close(fd_);
}

std::int64_t OutgoingFile::hashed_bytes() const {
  const std::lock_guard lock(mutex_);
  return hashed_bytes_;
}

std::optional<Result<std::string>> OutgoingFile::sha256() const {
  const std::lock_guard lock(mutex_);
  return sha_;
}

void OutgoingFile::read(FileRange range) {
  CHECK(range.offset >= 0 && range.bytes > 0 && range.offset <= bytes_ - range.bytes);
  const std::lock_guard lock(mutex_);
  ranges_.push_back(range);
  changed_.notify_all();
}

std::vector<FileRangeAnswer> OutgoingFile::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(answers_, {});
}

Result<std::string> OutgoingFile::read_at(std::int64_t offset, std::int64_t bytes) const {
  std::string content(static_cast<std::size_t>(bytes), '\0');
  std::int64_t done = 0;
  while (done < bytes) {
    const ssize_t n = pread(fd_, content.data() + done, static_cast<std::size_t>(bytes - done),
                            static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return Error{Errc::kIo, "read " + path_ + " at byte " + std::to_string(offset + done) + ": " +
                                  (n == 0 ? "it is shorter than it was" : std::strerror(errno))};
    }
    done += n;
  }
  return content;
}

/// Returns false once the thread is to end.
bool OutgoingFile::note_hashed(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  hashed_bytes_ = bytes;
  return !stop_;
}

void OutgoingFile::hash() {
  huggingface::Sha256 sha;
  std::optional<Error> failed;
  for (std::int64_t at = 0; at < bytes_ && !failed;) {
    const auto content = read_at(at, std::min(kHashBytes, bytes_ - at));
    if (!content) {
      failed = content.error();
      break;
    }
    sha.add(content->data(), content->size());
    at += static_cast<std::int64_t>(content->size());
    if (!note_hashed(at)) return;
  }
  const std::lock_guard lock(mutex_);
  sha_ = failed ? Result<std::string>(*failed) : Result<std::string>(sha.end_hex());
}

void OutgoingFile::run() {
  hash();
  wake_();
  for (;;) {
    FileRange range;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !ranges_.empty(); });
      if (stop_) return;
      range = ranges_.front();
      ranges_.pop_front();
    }
    FileRangeAnswer answer{range, read_at(range.offset, range.bytes)};
    {
      const std::lock_guard lock(mutex_);
      answers_.push_back(std::move(answer));
    }
    wake_();
  }
}

}  // namespace holdfast::daemon
