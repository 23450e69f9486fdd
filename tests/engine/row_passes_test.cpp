// Goal: passes over rows of logits give what the plain loops give, at every length and offset.
// Method: random rows with ties, infinities and NaNs, against std algorithms; e^x of a row against
// e^x of one value at a time.

#include "worker/engine/row_passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "worker/backend/api/logit_row.h"
#include "worker/model/exact_math.h"

namespace holdfast::engine::row_passes_test {
namespace {

std::vector<float> row_of(std::int32_t n, std::mt19937& random) {
  std::vector<float> x(static_cast<std::size_t>(n));
  for (float& v : x) v = static_cast<float>(static_cast<int>(random() % 41) - 20) * 0.75f;  // ties
  return x;
}

std::vector<std::int32_t> lengths() {
  std::vector<std::int32_t> n(70);
  for (std::int32_t i = 0; i < 70; ++i) n[static_cast<std::size_t>(i)] = i;
  n.push_back(1013);
  return n;
}

TEST(RowPasses, RowPasses_AtEveryLength_EqualThePlainLoops) {
  std::mt19937 random(3);
  for (const std::int32_t n : lengths()) {
    const std::vector<float> x = row_of(n, random);
    const float none = -std::numeric_limits<float>::infinity();
    EXPECT_EQ(max_of(x.data(), n), n == 0 ? none : *std::max_element(x.begin(), x.end()));
    double sum = 0;  // exact here: multiples of 0.75
    for (const float v : x) sum += static_cast<double>(v);
    const auto blocks = static_cast<std::size_t>(backend::logit_blocks(n));
    std::vector<float> maxima(blocks);
    Sum parts;
    for (std::int32_t i = 0; i < n; i += 48) {
      const auto first = x.begin() + i, end = x.begin() + std::min(n, i + 48);
      EXPECT_EQ(parts.add(x.data() + i, std::min(48, n - i)), std::accumulate(first, end, 0.0));
    }
    EXPECT_EQ(parts.total(), sum);
    block_maxima(x.data(), n, maxima.data());
    for (std::size_t b = 0; b < blocks; ++b) {
      const auto first = x.begin() + static_cast<std::ptrdiff_t>(b) * backend::kBlockIds;
      const auto end = x.end() - first > backend::kBlockIds ? first + backend::kBlockIds : x.end();
      EXPECT_EQ(maxima[b], *std::max_element(first, end)) << n << " " << b;
    }
    for (std::int32_t id = 0; id < n; id += 7) {
      const auto before = [&](std::int32_t i) {
        const auto at = static_cast<std::size_t>(i), target = static_cast<std::size_t>(id);
        return x[at] > x[target] || (x[at] == x[target] && i < id);
      };
      std::int32_t rank = 1;
      for (std::int32_t i = 0; i < n; ++i) rank += before(i) ? 1 : 0;
      EXPECT_EQ(rank_of(x.data(), n, id), rank) << n << " " << id;
    }
  }
}

TEST(RowPasses, Passes_WhenOneValueIsOdd_FindItAtEveryIndex) {
  std::mt19937 random(4);
  for (const std::int32_t n : lengths()) {
    std::vector<float> x = row_of(n, random);
    EXPECT_TRUE(all_finite(x.data(), n));
    for (std::size_t i = 0; i < x.size(); i += 3) {
      const float saved = x[i];
      for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
        x[i] = bad;
        EXPECT_FALSE(all_finite(x.data(), n)) << n << " " << i;
      }
      x[i] = 100;
      EXPECT_EQ(max_of(x.data(), n), 100.0f);
      x[i] = saved;
    }
  }
}

TEST(RowPasses, ExpArray_ForAWholeRow_HasTheBitsOfEachValue) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> value(-130, 0);
  std::vector<float> x(1013), row(1013);
  for (float& v : x) v = value(random);
  x[5] = 0, x[6] = -0.0f, x[7] = -87, x[8] = -87.00001f, x[9] = -std::numeric_limits<float>::max();
  for (const float scale : {1.0f, 0.7f, 3.0f}) {
    model::exact_exp_array(x.data(), 0, scale, row.data(), 1013);
    for (std::size_t i = 0; i < x.size(); ++i) {
      float one = 0;
      model::exact_exp_array(&x[i], 0, scale, &one, 1);
      ASSERT_EQ(row[i], one) << x[i];
      const double y = static_cast<double>(x[i] / scale);
      EXPECT_NEAR(static_cast<double>(one), y < -87 ? 0 : std::exp(y), 3e-7 * std::exp(y)) << x[i];
    }
    std::vector<float> same = x;
    model::exact_exp_array(same.data(), 0, scale, same.data(), 1013);
    EXPECT_EQ(same, row);
  }
}

}  // namespace
}  // namespace holdfast::engine::row_passes_test
