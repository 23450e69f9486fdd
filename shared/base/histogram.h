#pragma once
// Durations in fixed logarithmic buckets: adding is one increment, histograms merge by addition,
// and a quantile is exact to an eighth of an octave.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace holdfast {

/// Counts of integers (we use microseconds). Values below 8 have a bucket each; above, each
/// doubling is cut into 8, so that a bucket is at most 12.5 % wide. Negative values count as 0,
/// values from 2^40 on (12 days) go into the last bucket. 2.4 KiB; never allocates; not
/// thread-safe.
class Histogram {
 public:
  static constexpr int kPerOctave = 8;
  static constexpr int kOctaves = 40;
  static constexpr std::size_t kBuckets = (kOctaves - 2) * kPerOctave;

  /// Counts `value` as added `count` times.
  void add(std::int64_t value, std::uint64_t count = 1) {
    counts_[bucket_of(value)] += count;
    count_ += count;
    sum_ += (value > 0 ? value : 0) * static_cast<std::int64_t>(count);
    if (value > max_) max_ = value;
  }
  /// Adds all values of another histogram, as if they had been added here.
  void merge(const Histogram& other);

  /// The number of added values, and their sum, in which negative ones are 0.
  std::uint64_t count() const { return count_; }
  std::int64_t sum() const { return sum_; }
  std::int64_t max() const { return max_; }  // exact; 0 if nothing was added
  /// Returns a value that at least the share `q` (0 to 1) of the added values does not exceed: the
  /// upper end of its bucket, at most max(). 0 if nothing was added.
  std::int64_t quantile(double q) const;
  /// Returns how many added values are at most `limit`; a bucket that `limit` cuts is left out.
  std::uint64_t count_up_to(std::int64_t limit) const;

  /// Returns the index of the bucket that counts a value.
  static std::size_t bucket_of(std::int64_t value) {
    if (value < kPerOctave) return value < 0 ? 0 : static_cast<std::size_t>(value);
    const int octave = std::bit_width(static_cast<std::uint64_t>(value)) - 1;  // from 3 on
    if (octave >= kOctaves) return kBuckets - 1;
    const auto step = static_cast<std::size_t>((value >> (octave - 3)) & (kPerOctave - 1));
    return static_cast<std::size_t>(octave - 2) * kPerOctave + step;
  }
  /// Returns the largest value of a bucket; for the last one, its nominal end.
  static std::int64_t upper_end(std::size_t bucket);

 private:
  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t count_ = 0;
  std::int64_t sum_ = 0;
  std::int64_t max_ = 0;
};

}  // namespace holdfast
