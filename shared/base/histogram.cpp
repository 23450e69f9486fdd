#include "shared/base/histogram.h"

#include <algorithm>
#include <cmath>

namespace holdfast {

std::int64_t Histogram::upper_end(std::size_t bucket) {
  if (bucket < kPerOctave) return static_cast<std::int64_t>(bucket);
  const int octave = static_cast<int>(bucket / kPerOctave) + 2;
  const auto step = static_cast<std::int64_t>(bucket % kPerOctave);
  const std::int64_t width = std::int64_t{1} << (octave - 3);
  return (std::int64_t{1} << octave) + (step + 1) * width - 1;
}

void Histogram::merge(const Histogram& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

std::int64_t Histogram::quantile(double q) const {
  if (count_ == 0) return 0;
  const double target = std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(count_));
  const auto rank = std::max<std::uint64_t>(static_cast<std::uint64_t>(target), 1);
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i + 1 < kBuckets; ++i) {
    cumulative += counts_[i];
    if (cumulative >= rank) return std::min(upper_end(i), max_);
  }
  return max_;
}

std::uint64_t Histogram::count_up_to(std::int64_t limit) const {
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i + 1 < kBuckets && upper_end(i) <= limit; ++i) cumulative += counts_[i];
  return cumulative;
}

}  // namespace holdfast
