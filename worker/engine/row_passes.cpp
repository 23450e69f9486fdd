#include "worker/engine/row_passes.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "shared/base/wide.h"
#include "worker/backend/api/logit_row.h"

namespace holdfast::engine {
namespace {

constexpr int kLanes = 16;  // partial results, joined in order: a sum is one fixed expression

HOLDFAST_WIDE_BODY bool finite_body(const float* x, std::int64_t n) {
  std::uint32_t bad[kLanes] = {};
  std::int64_t i = 0;
  const auto is_bad = [](float v) {
    return (std::bit_cast<std::uint32_t>(v) & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
  };
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) bad[j] |= is_bad(x[i + j]);
  }
  for (; i < n; ++i) bad[0] |= is_bad(x[i]);
  for (int j = 1; j < kLanes; ++j) bad[0] |= bad[j];
  return bad[0] == 0;
}

HOLDFAST_WIDE_BODY float max_body(const float* x, std::int32_t n) {
  float lanes[kLanes];
  for (float& lane : lanes) lane = -std::numeric_limits<float>::infinity();
  std::int32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
  }
  for (; i < n; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  for (int j = 1; j < kLanes; ++j) lanes[0] = lanes[j] > lanes[0] ? lanes[j] : lanes[0];
  return lanes[0];
}

HOLDFAST_WIDE_BODY void maxima_body(const float* x, std::int32_t n, float* maxima) {
  for (std::int32_t i = 0; i < n; i += backend::kBlockIds) {
    *maxima++ = max_body(x + i, std::min(backend::kBlockIds, n - i));
  }
}

HOLDFAST_WIDE_BODY double sum_body(const float* x, std::int32_t n, double* all) {
  double lanes[kLanes], row_lanes[kLanes] = {};
  for (int j = 0; j < kLanes; ++j) lanes[j] = all[j];
  std::int32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) {
      lanes[j] += static_cast<double>(x[i + j]);
      row_lanes[j] += static_cast<double>(x[i + j]);
    }
  }
  for (; i < n; ++i) {
    lanes[0] += static_cast<double>(x[i]);
    row_lanes[0] += static_cast<double>(x[i]);
  }
  for (int j = 0; j < kLanes; ++j) all[j] = lanes[j];
  for (int j = 1; j < kLanes; ++j) row_lanes[0] += row_lanes[j];
  return row_lanes[0];
}

HOLDFAST_WIDE_BODY std::int32_t count_body(const float* x, std::int32_t n, float value,
                                           bool equal) {
  std::int32_t lanes[kLanes] = {};
  std::int32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) {
      lanes[j] += (x[i + j] > value ? 1 : 0) | ((x[i + j] == value ? 1 : 0) & (equal ? 1 : 0));
    }
  }
  for (; i < n; ++i) lanes[0] += x[i] > value || (equal && x[i] == value) ? 1 : 0;
  for (int j = 1; j < kLanes; ++j) lanes[0] += lanes[j];
  return lanes[0];
}

HOLDFAST_WIDE(finite_body, bool, (const float* x, std::int64_t n), (x, n))
HOLDFAST_WIDE(max_body, float, (const float* x, std::int32_t n), (x, n))
HOLDFAST_WIDE(maxima_body, void, (const float* x, std::int32_t n, float* maxima), (x, n, maxima))
HOLDFAST_WIDE(sum_body, double, (const float* x, std::int32_t n, double* all), (x, n, all))
HOLDFAST_WIDE(count_body, std::int32_t, (const float* x, std::int32_t n, float value, bool equal),
              (x, n, value, equal))

std::int32_t count(const float* x, std::int32_t n, float value, bool equal) {
  HOLDFAST_WIDE_CALL(count_body, x, n, value, equal);
}

}  // namespace

bool all_finite(const float* x, std::int64_t n) {
  HOLDFAST_WIDE_CALL(finite_body, x, n);
}

float max_of(const float* x, std::int32_t n) {
  HOLDFAST_WIDE_CALL(max_body, x, n);
}

void block_maxima(const float* x, std::int32_t n, float* maxima) {
  HOLDFAST_WIDE_CALL(maxima_body, x, n, maxima);
}

double Sum::add(const float* x, std::int32_t n) {
  HOLDFAST_WIDE_CALL(sum_body, x, n, lanes_);
}

double Sum::total() const {
  double sum = 0;
  for (const double lane : lanes_) sum += lane;
  return sum;
}

std::int32_t rank_of(const float* x, std::int32_t n, std::int32_t id) {
  return count(x, id, x[id], true) + count(x + id + 1, n - id - 1, x[id], false) + 1;
}

}  // namespace holdfast::engine
