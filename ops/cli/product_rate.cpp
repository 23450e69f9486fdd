#include "ops/cli/product_rate.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "shared/base/clock.h"

namespace holdfast::cli {
namespace {

constexpr double kSeconds = 0.02;

/// The work of all threads, and the time of the slowest of them.
struct Done {
  double work = 0;
  double seconds = 0;
};
Done compute(ThreadPool& team, const cpu::Kernels& kernels, cpu::Format format,
             std::int64_t rounds) {
  std::atomic<double> work{0};
  const std::int64_t start = system_clock().monotonic_us();
  team.run([&](int) {
    alignas(64) std::uint8_t lines[cpu::kAloneBytes];
    std::memset(lines, 0, sizeof lines);  // zeros are neither NaN nor subnormal
    work += kernels.products_alone(format, false, rounds, lines);
  });
  return {work, static_cast<double>(system_clock().monotonic_us() - start) / 1e6};
}

}  // namespace

ProductRate::ProductRate(int threads, const cpu::Kernels& kernels, gguf::TensorType type,
                         double int8_share)
    : team_(std::max(threads, 1)),
      kernels_(kernels),
      format_(cpu::format_of(type).value_or(cpu::Format::kF32)) {
  alignas(64) std::uint8_t lines[cpu::kAloneBytes] = {};
  const double gain = kernels.products_alone(format_, true, 1, lines) /
                      kernels.products_alone(format_, false, 1, lines);
  times_ = 1 / (1 - int8_share + int8_share / gain);
}

double ProductRate::tops() {
  Done done = compute(team_, kernels_, format_, rounds_);
  while (done.seconds < kSeconds / 2) {
    rounds_ *= 2;
    done = compute(team_, kernels_, format_, rounds_);
  }
  return times_ * done.work / done.seconds / 1e12;
}

}  // namespace holdfast::cli
