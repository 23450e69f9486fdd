// Goal: the histogram's quantiles can be trusted to an eighth of an octave, merging is the same as
// having counted together, and no value of any size falls outside.
// Method: every bucket's ends; random values of all magnitudes against their sorted list.
#include "shared/base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace holdfast::histogram_test {
namespace {

TEST(Histogram, Buckets_OverTheWholeRange_HaveNoGapOrOverlap) {
  std::int64_t next = 0;
  for (std::size_t i = 0; i + 1 < Histogram::kBuckets; ++i) {
    EXPECT_EQ(Histogram::bucket_of(next), i);
    EXPECT_EQ(Histogram::bucket_of(Histogram::upper_end(i)), i);
    const std::int64_t width = Histogram::upper_end(i) - next + 1;
    EXPECT_LE(width, std::max<std::int64_t>(next / 8, 1)) << i;
    next = Histogram::upper_end(i) + 1;
  }
  EXPECT_EQ(Histogram::bucket_of(-5), 0u);
  EXPECT_EQ(Histogram::bucket_of(std::numeric_limits<std::int64_t>::max()),
            Histogram::kBuckets - 1);
}

TEST(Histogram, Quantile_OfRandomValues_IsWithinAnEighth) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    Histogram all, first, second;
    std::vector<std::int64_t> values;
    std::uniform_real_distribution<double> magnitude(0, 25);
    const std::size_t count = 1 + random() % 2000;
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = static_cast<std::int64_t>(std::exp(magnitude(random)));
      values.push_back(value);
      all.add(value);
      (i % 3 == 0 ? first : second).add(value);
    }
    std::sort(values.begin(), values.end());
    first.merge(second);
    for (const double q : {0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 1.0}) {
      const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(count)));
      const std::int64_t exact = values[rank == 0 ? 0 : rank - 1];
      EXPECT_GE(all.quantile(q), exact);
      EXPECT_LE(all.quantile(q), exact + exact / 8) << q;
      EXPECT_EQ(first.quantile(q), all.quantile(q));
    }
    EXPECT_EQ(all.max(), values.back());
    EXPECT_EQ(first.count(), count);
    EXPECT_EQ(first.sum(), all.sum());
  }
}

TEST(Histogram, Histogram_WhenEmptyOrWeighted_CountsExactly) {
  Histogram h;
  EXPECT_EQ(h.quantile(0.99), 0);
  EXPECT_EQ(h.max(), 0);
  h.add(10, 99);
  h.add(5000, 1);
  EXPECT_EQ(h.count(), 100u);
  EXPECT_EQ(h.quantile(0.5), 10);
  EXPECT_EQ(h.quantile(0.99), 10);
  EXPECT_EQ(h.quantile(1.0), 5000);
  EXPECT_EQ(h.sum(), 5990);
  EXPECT_EQ(h.count_up_to(4), 0u);
  EXPECT_EQ(h.count_up_to(100), 99u);
  h.add(std::numeric_limits<std::int64_t>::max() / 1024);
  EXPECT_EQ(h.quantile(1.0), std::numeric_limits<std::int64_t>::max() / 1024);
}

}  // namespace
}  // namespace holdfast::histogram_test
