#include "ops/cli/memory_rate.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "shared/base/check.h"
#include "shared/base/clock.h"

namespace holdfast::cli {
namespace {

constexpr std::int64_t kPiece = 64;    // bytes
constexpr std::int64_t kShare = 4096;  // whole runs of pieces
constexpr double kSeconds = 0.05;

/// A value of all bytes of a share, so that none can be left unread. One run at a time, or without
/// fetching ahead, a core of the machine that this was tried on reads a third less.
std::uint64_t fold(const std::uint8_t* from, std::int64_t bytes) {
  constexpr int kRuns = 4;
  constexpr int kAhead = 2048;
  std::uint64_t sums[8] = {};
  for (std::int64_t at = 0; at < bytes / kRuns; at += kPiece) {
    for (int run = 0; run < kRuns; ++run) {
      const std::uint8_t* piece = from + run * (bytes / kRuns) + at;
      __builtin_prefetch(piece + kAhead);
      std::uint64_t words[8];
      std::memcpy(words, piece, sizeof words);
      for (int i = 0; i < 8; ++i) sums[i] ^= words[i];
    }
  }
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all ^= sum;
  return all;
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
  CHECK(folded != 0);  // and by that it was read
  return static_cast<double>(system_clock().monotonic_us() - start) / 1e6;
}

double MemoryRate::gb_s() {
  if (!asked_) {
    asked_ = true;
    auto taken = cpu::Region::take(kBytes, "memory rate");
    if (!taken) return 0;
    region_ = std::move(*taken);
    // Pages of zeros could all be one page.
    for (std::size_t at = 0; at < kBytes; at += 512) region_.data()[at] = 1;
    region_.data()[0] = 2;  // so the fold of all is not 0
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
