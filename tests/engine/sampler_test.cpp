// Goal: the sampler looks at a small part of a row whose block maxima are known, and gives the
// token that looking at all logits gives, bit for bit.
// Method: the steps of sampler.h written a second time, over all ids and in one order, against the
// sampler with and without those maxima; rows of every kind (steep, flat, of few values, masked).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "worker/engine/philox.h"
#include "worker/engine/row_passes.h"
#include "worker/engine/sampler.h"
#include "worker/model/exact_math.h"

namespace holdfast::engine::sampler_test {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

/// The sum by 16 partial sums; the rest is added to the first.
double sum_of(const std::vector<float>& x) {
  double lanes[16] = {};
  const std::size_t whole = x.size() / 16 * 16;
  for (std::size_t i = 0; i < x.size(); ++i) {
    lanes[i < whole ? i % 16 : 0] += static_cast<double>(x[i]);
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

/// The weights e^((x - max) / T) of all.
std::vector<float> weights_of(const std::vector<float>& x, float max, float temperature) {
  std::vector<float> w(x.size());
  model::exact_exp_array(x.data(), max, temperature, w.data(), static_cast<int>(x.size()));
  return w;
}

/// The first of `weights` at which their running sum exceeds `unit` of all.
std::size_t draw(const std::vector<float>& weights, double sum, double unit) {
  double cumulated = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    last = i;
    cumulated += static_cast<double>(weights[i]);
    if (cumulated > unit * sum) return i;
  }
  return last;
}

/// Steps 3 to 5 over a row that has been changed as 0 to 2 say.
TokenId reference_sample(const std::vector<float>& row, const wire::Sampling& s, double unit) {
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < row.size(); ++i) all.push_back({row[i], static_cast<TokenId>(i)});
  std::sort(all.begin(), all.end(), before);
  const auto vocab = static_cast<std::int32_t>(row.size());
  if (s.temperature < 1e-6f || s.top_k == 1) return all[0].id;
  const bool has_k = s.top_k > 0 && s.top_k < vocab;
  const std::vector<float> by_id = weights_of(row, all[0].logit, s.temperature);
  const double whole = sum_of(by_id);
  if (!has_k && s.top_p >= 1 && s.min_p <= 0) {
    return static_cast<TokenId>(draw(by_id, whole, unit));
  }
  if (has_k) all.resize(static_cast<std::size_t>(s.top_k), {0, 0});
  std::vector<float> by_rank;
  for (const Candidate& c : all) by_rank.push_back(by_id[static_cast<std::size_t>(c.id)]);
  double total = has_k ? 0 : whole;
  for (const float w : by_rank) total += has_k ? static_cast<double>(w) : 0;
  const double target_mass =
      s.top_p < 1 ? total * static_cast<double>(s.top_p) : std::numeric_limits<double>::infinity();
  double cumulated = 0;
  std::size_t n = 0;
  while (n < by_rank.size() && by_rank[n] > 0 && by_rank[n] >= s.min_p) {
    cumulated += static_cast<double>(by_rank[n++]);
    if (cumulated >= target_mass) break;
  }
  by_rank.resize(n);
  double left = 0;
  for (const float w : by_rank) left += static_cast<double>(w);
  return all[draw(by_rank, left, unit)].id;
}

struct Case {
  std::vector<float> row;
  wire::Sampling sampling;
  std::vector<std::uint64_t> mask;  // empty: none
};

std::vector<float> drawn_row(std::mt19937& random, std::size_t n) {
  std::normal_distribution<float> normal(0, 2.5F);
  std::vector<float> row(n);
  const auto kind = random() % 6;
  for (float& x : row) {
    x = normal(random);
    if (kind == 0) x = 0.25F;                          // all alike: ids decide
    if (kind == 1) x = std::round(0.4F * x);           // many alike, zeros of either sign
    if (kind == 2) x *= 0.05F;                         // nearly flat
    if (kind == 3) x *= 20;                            // steep: most weights are 0
    if (kind == 4) x = x > 0 ? 1e-3F * x : x - 80.0F;  // half of it hardly ever
  }
  return row;
}

Case drawn_case(std::mt19937& random) {
  constexpr std::size_t kSizes[] = {3, 97, 128, 129, 1000, 4096, 20'000};
  const std::size_t n = kSizes[random() % std::size(kSizes)];
  Case c;
  c.row = drawn_row(random, n);
  std::uniform_real_distribution<float> real(0, 1);
  wire::Sampling& s = c.sampling;
  s.temperature = random() % 6 == 0 ? 0 : 0.1F + 1.9F * real(random);
  s.top_p = s.min_p = 0;
  s.top_p = random() % 2 == 0 ? 1 : std::min(1.0F, 0.3F + 0.75F * real(random));
  if (random() % 3 == 0) {
    s.top_k = static_cast<std::int32_t>(1 + random() % (random() % 2 == 0 ? 50 : n + 5));
  }
  if (random() % 3 == 0) s.min_p = std::pow(10.0F, -6 * real(random));
  s.seed = random();
  if (random() % 3 != 0) return c;
  c.mask.assign((n + 63) / 64, 0);
  const auto sparse = random() % 3;
  for (std::size_t i = 0; i < n; ++i) {
    const bool may = sparse == 0   ? random() % 500 == 0
                     : sparse == 1 ? random() % 2 == 0
                                   : i / 70 % 3;
    if (may) c.mask[i / 64] |= std::uint64_t{1} << i % 64;
  }
  c.mask[0] |= 2;  // at least one token is allowed
  return c;
}

TEST(Sampler, Sample_WhenBlockMaximaAreGiven_IsThatOfAllLogits) {
  std::mt19937 random(7);
  for (int round = 0; round < 1500; ++round) {
    const Case c = drawn_case(random);
    std::vector<float> row = c.row;
    for (std::size_t i = 0; i < row.size() && !c.mask.empty(); ++i) {
      if ((c.mask[i / 64] >> i % 64 & 1) == 0) row[i] = kNone;
    }
    Sampler sampler(static_cast<std::int32_t>(row.size()), {0});
    SampleInput in;
    in.sampling = &c.sampling;
    in.mask = c.mask;
    std::vector<float> maxima(
        static_cast<std::size_t>(backend::logit_blocks(static_cast<std::int32_t>(row.size()))));
    block_maxima(c.row.data(), static_cast<std::int32_t>(row.size()), maxima.data());
    for (in.generated_n = 0; in.generated_n < 3; ++in.generated_n) {
      const double unit = random_unit(c.sampling.seed, 0, in.generated_n, RandomPurpose::kSample);
      const TokenId expected = reference_sample(row, c.sampling, unit);
      ASSERT_EQ(sampler.sample({c.row.data()}, in), expected) << round;
      ASSERT_EQ(sampler.sample({c.row.data(), maxima.data()}, in), expected) << round;
    }
  }
}

// The ranking looks at and sorts enough ids, and hardly more, where thousands are within top_p.
TEST(Sampler, LeastFor_WhenTheNucleusIsLarge_RanksHardlyMoreThanNeeded) {
  std::mt19937 random(8);
  std::uniform_real_distribution<float> real(0.05F, 1);
  for (int round = 0; round < 60; ++round) {
    const std::vector<float> row = drawn_row(random, 20'000);
    const auto vocab = static_cast<std::int32_t>(row.size());
    std::vector<float> maxima(static_cast<std::size_t>(backend::logit_blocks(vocab)));
    block_maxima(row.data(), vocab, maxima.data());
    const LogitRow logits = {row.data(), maxima.data()};
    const float max = *std::max_element(row.begin(), row.end()), temperature = 2 * real(random);
    const std::vector<float> weights = weights_of(row, max, temperature);
    const double target_mass = sum_of(weights) * static_cast<double>(real(random));
    Ranking ranking(vocab);
    std::vector<Candidate> list;
    const auto weight_from = [&](float least) {
      ranking.at_least(logits, least, list);
      double sum = 0;
      for (const Candidate& c : list) {
        sum += static_cast<double>(weights[static_cast<std::size_t>(c.id)]);
      }
      return sum;
    };
    const float least = ranking.least_for(logits, weights.data(), max, temperature, target_mass);
    EXPECT_GE(weight_from(least), target_mass) << round;
    EXPECT_TRUE(std::is_sorted(list.begin(), list.end(), before)) << round;
    EXPECT_LT(weight_from(least + 0.4F * temperature), target_mass) << round;  // steps are T / 8
  }
}

}  // namespace
}  // namespace holdfast::engine::sampler_test
