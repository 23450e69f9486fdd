#include "ops/cli/memory_rate.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "shared/base/check.h"
#include "shared/base/clock.h"

namespace holdfast::cli {
namespace {

constexpr std::int64_t kLineBytes = 64;  // a cache line
constexpr std::int64_t kShare = 4096;    // whole lines for each of kRuns
constexpr double kSeconds = 0.05;

using Words = std::uint64_t __attribute__((vector_size(16)));

/// Folds all bytes of a share into one value, so that none can be left unread. Four runs are read
/// at once and prefetched: without that a core may read a third less. The sums stay in registers:
/// through memory a fast core folds slower than it could read.
std::uint64_t fold(const std::uint8_t* from, std::int64_t bytes) {
  constexpr int kRuns = 4;
  constexpr int kAhead = 2048;
  const std::int64_t length = bytes / kRuns;
  Words a = {}, b = {}, c = {}, d = {};
  for (std::int64_t at = 0; at < length; at += kLineBytes) {
    const std::uint8_t* line = from + at;
    for (int run = 0; run < kRuns; ++run, line += length) {
      __builtin_prefetch(line + kAhead);
      const auto* words = reinterpret_cast<const Words*>(line);
      a ^= words[0], b ^= words[1], c ^= words[2], d ^= words[3];
    }
  }
  a ^= b ^ c ^ d;
  return a[0] ^ a[1];
}

}  // namespace

MemoryRate::MemoryRate(int threads) : team_(std::max(threads, 1)) {}

double MemoryRate::read_once() {
  std::atomic<std::uint64_t> folded{0};
  const std::int64_t start = system_clock().monotonic_us();
  team_.run([&](int worker) {
    const Share mine = share_of(static_cast<std::int64_t>(kBytes) / kShare, worker, team_.size());
    folded ^= fold(region_.data() + mine.first * kShare, (mine.last - mine.first) * kShare);
  });
  CHECK(folded != 0);  // proves that all was read
  return static_cast<double>(system_clock().monotonic_us() - start) / 1e6;
}

double MemoryRate::gb_s() {
  if (!allocated_) {
    allocated_ = true;
    auto taken = cpu::Region::take(kBytes, "memory rate");
    if (!taken) return 0;
    region_ = std::move(*taken);
    // Pages of zeros could all be the same page.
    for (std::size_t at = 0; at < kBytes; at += 512) region_.data()[at] = 1;
    region_.data()[0] = 2;  // so that the fold of all is not 0
  }
  if (region_.data() == nullptr) return 0;
  double seconds = 0;
  int times = 0;
  while (seconds < kSeconds) {
    seconds += read_once();
    ++times;
  }
  return static_cast<double>(kBytes) * times / seconds / 1e9;
}

}  // namespace holdfast::cli
