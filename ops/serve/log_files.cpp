#include "ops/serve/log_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "shared/base/clock.h"

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;

std::string older(const std::string& path, std::int64_t n) {
  return path + "." + std::to_string(n);
}

/// Copies all of `from` after offset `at`; returns the end, or -1 on failure.
off_t copy_rest(int from, int to, off_t at) {
  std::array<char, 65'536> buffer;
  for (;;) {
    const ssize_t n = pread(from, buffer.data(), buffer.size(), at);
    if (n <= 0) return n < 0 ? -1 : at;
    if (write(to, buffer.data(), static_cast<std::size_t>(n)) != n) return -1;
    at += n;
  }
}

/// Copies a log to `rotated` (unless that is empty) and truncates it: processes hold it open, so it
/// cannot be replaced.
void empty_into(const std::string& path, const std::string& rotated) {
  const int from = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (from < 0) return;
  const std::string part = rotated + ".part";
  const int to =
      rotated.empty() ? -1 : open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  off_t end = to >= 0 ? copy_rest(from, to, 0) : -1;
  if (end >= 0) end = copy_rest(from, to, end);  // what came meanwhile
  (void)!ftruncate(from, 0);
  close(from);
  if (to < 0) return;
  close(to);
  if (end < 0 || std::rename(part.c_str(), rotated.c_str()) != 0) unlink(part.c_str());
}

}  // namespace

void rotate_logs(const std::string& folder, const LogBounds& bounds) {
  std::error_code failed;
  std::vector<std::string> long_ones;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".log")) continue;
    const auto size = fs::file_size(path, failed);
    if (!failed && size > static_cast<std::uintmax_t>(bounds.bytes)) long_ones.push_back(path);
  }
  for (const std::string& path : long_ones) {
    for (std::int64_t n = bounds.files - 1; n >= 1; --n) {
      std::rename(older(path, n).c_str(), older(path, n + 1).c_str());
    }
    empty_into(path, bounds.files > 0 ? older(path, 1) : std::string());
  }
}

void LogRotation::step() {
  constexpr std::int64_t kEveryUs = 1'000'000;
  const std::int64_t now_us = system_clock().monotonic_us();
  if (now_us - looked_us_ < kEveryUs) return;
  looked_us_ = now_us;
  rotate_logs(folder_, bounds_);
}

}  // namespace holdfast::cli
