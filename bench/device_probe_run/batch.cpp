#include "bench/device_probe_run/batch.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bench/device_probe_run/random.h"

namespace holdfast::bench::probe {
namespace {

constexpr std::size_t kInt8Panel = 16;
constexpr float kInt8Largest = 16256.0f;

float largest_of(const float* v, std::size_t n) {
  float largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(v[i]));
  return largest;
}

/// The k, of 16, of the four halves that lane t of a fragment has of a column.
constexpr std::size_t column_k(std::size_t t, std::size_t i) {
  return 2 * t + i % 2 + i / 2 * 8;
}

}  // namespace

Batch::Batch(std::size_t rows, std::size_t k) : rows(rows), k(k), values(rows * k) {
  Random random(11);
  for (float& v : values) v = random.normal();
}

std::vector<std::uint32_t> Batch::int8_rows() const {
  std::vector<std::uint32_t> out(values.size());
  for (std::size_t panel = 0; panel < values.size() / kInt8Panel; ++panel) {
    const float* const v = &values[panel * kInt8Panel];
    std::int8_t bytes[2][kInt8Panel];
    const float largest = largest_of(v, kInt8Panel), one = largest / kInt8Largest;
    int sum = 0;
    for (std::size_t i = 0; i < kInt8Panel; ++i) {
      const int code = static_cast<int>(std::nearbyint(v[i] * (kInt8Largest / largest)));
      const int high = (code + 64) >> 7;
      bytes[0][i] = static_cast<std::int8_t>(high);
      bytes[1][i] = static_cast<std::int8_t>(code - high * 128);
      sum += code;
    }
    const float last[2] = {one, static_cast<float>(sum) * one};
    std::memcpy(&out[panel * kInt8Panel], bytes, sizeof bytes);
    std::memcpy(&out[panel * kInt8Panel + 8], last, sizeof last);
  }
  return out;
}

std::vector<Half> Batch::half_rows() const {
  std::vector<Half> out(values.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t t = i % 64 / 16, j = i % 16 / 4;
    out[i] = half_of(values[i / 64 * 64 + j * 16 + column_k(t, i % 4)]);
  }
  return out;
}

std::vector<Half> Batch::half_tiles() const {
  std::vector<Half> out(values.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t tile = i / (8 * k), span = i % (8 * k) / 256, lane = i % 256 / 8;
    const std::size_t row = tile * 8 + lane / 4, j = i % 8 / 4;
    out[i] = half_of(values[row * k + span * 32 + j * 16 + column_k(lane % 4, i % 4)]);
  }
  return out;
}

std::vector<Half> Batch::half_cores() const {
  std::vector<Half> out(values.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t tile = i / (8 * k), step = i % (8 * k) / 128, core = i % 128 / 64;
    out[i] = half_of(values[(tile * 8 + i % 64 / 8) * k + step * 16 + core * 8 + i % 8]);
  }
  return out;
}

}  // namespace holdfast::bench::probe
