// Goal: the row kernels of some architectures compute what their names say, with the same bits in
// every family.
// Method: float64, over ranges where their ways of computing change; bits against scalar.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "tests/kernels/random_matrix.h"
#include "worker/backend/cpu/family.h"

namespace holdfast::cpu::rows_variants_test {
namespace {

/// Values from -40 to 40, close together around 0.
std::vector<float> many_values() {
  std::vector<float> x = {0.0f, -0.0f, 1e-30f, -1e-30f, 200.0f, -200.0f, 0.25f, -0.25f};
  for (float v = 1e-6f; v < 40; v *= 1.003f) {
    x.push_back(v);
    x.push_back(-v);
  }
  while (x.size() % 16 != 0) x.push_back(1);
  return x;
}

/// Compares f(kernels, values in place) with exact(x), relative, and its bits between families.
template <class F, class Exact>
void expect_function(F f, Exact exact, double relative, double absolute) {
  const std::vector<float> x = many_values();
  std::vector<float> scalar = x;
  f(scalar_kernels(), scalar);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = exact(static_cast<double>(x[i]));
    ASSERT_NEAR(static_cast<double>(scalar[i]), want, relative * std::fabs(want) + absolute)
        << x[i];
  }
  for (const std::string& name : runnable_families()) {
    std::vector<float> out = x;
    f(*select_family(name).value(), out);
    EXPECT_EQ(std::memcmp(out.data(), scalar.data(), out.size() * sizeof(float)), 0) << name;
  }
}

auto activation(Activate act) {
  return [act](const Kernels& k, std::vector<float>& x) {
    k.activate(act, x.data(), nullptr, static_cast<std::int64_t>(x.size()));
  };
}

TEST(Activate, Kernels_InEveryFamily_AgreeWithFloat64) {
  expect_function(
      activation(Activate::kSilu), [](double x) { return x / (1 + std::exp(-x)); }, 1e-6, 1e-37);
  expect_function(
      activation(Activate::kGeluTanh),
      [](double x) {
        const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
        return x / (1 + std::exp(-2 * u));
      },
      1e-5, 1e-30);
  expect_function(
      activation(Activate::kGeluErf),
      [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }, 3e-7, 4e-7);
  expect_function(
      activation(Activate::kReluSquared), [](double x) { return x > 0 ? x * x : 0; }, 1e-7, 1e-37);
}

TEST(Activate, SwigluOai_WithLargeInputs_IsBoundedOnBothSides) {
  for (const float up : {-1e30f, -7.5f, -7.0f, -1.0f, 0.0f, 2.5f, 7.0f, 1e30f}) {
    const double bounded = std::clamp(static_cast<double>(up), -7.0, 7.0);
    expect_function(
        [up](const Kernels& k, std::vector<float>& x) {
          const std::vector<float> ups(x.size(), up);
          k.activate(Activate::kSwigluOai, x.data(), ups.data(),
                     static_cast<std::int64_t>(x.size()));
        },
        [bounded](double x) {
          const double gate = std::min(x, 7.0);
          return gate / (1 + std::exp(-1.702 * gate)) * (bounded + 1);
        },
        1e-5, 1e-30);
  }
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const bool of_gate : {false, true}) {  // must not turn into a number
    std::vector<float> gate(16, of_gate ? kNan : 1.0f);
    const std::vector<float> up(16, of_gate ? 1.0f : kNan);
    select_family("").value()->activate(Activate::kSwigluOai, gate.data(), up.data(), 16);
    EXPECT_TRUE(std::isnan(gate[3])) << of_gate;
  }
}

TEST(Activate, Activate_WithAnUpProjection_MultipliesByIt) {
  const std::vector<float> up = random_rows(1, 64, 64, 5), gate = random_rows(1, 64, 64, 6);
  std::vector<float> alone = gate, both = gate;
  const Kernels& k = *select_family("").value();
  k.activate(Activate::kGeluErf, alone.data(), nullptr, 64);
  k.activate(Activate::kGeluErf, both.data(), up.data(), 64);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(both[i], alone[i] * up[i]);
}

TEST(ScaleCap, ScaleCap_EqualsAScaledTanh) {
  expect_function(
      [](const Kernels& k, std::vector<float>& x) {
        k.scale_cap(x.data(), 0.5f, 3.0f, static_cast<std::int64_t>(x.size()));
      },
      [](double x) { return 3 * std::tanh(0.5 * x / 3); }, 6e-7, 1e-37);
  std::vector<float> x(16, std::numeric_limits<float>::quiet_NaN());
  select_family("").value()->scale_cap(x.data(), 1, 3, 16);
  EXPECT_TRUE(std::isnan(x[7]));  // must not turn into a number
}

TEST(LayerNorm, Kernels_InEveryFamily_AgreeWithFloat64) {
  for (const std::int64_t n : {16, 40, 72, 896}) {
    std::vector<float> x = random_rows(1, n, round_up(n, 16), 21);
    const std::vector<float> w = random_rows(1, n, round_up(n, 16), 22);
    const std::vector<float> b = random_rows(1, n, round_up(n, 16), 23);
    for (std::int64_t i = 0; i < n; ++i) x[static_cast<std::size_t>(i)] += 3;  // a mean to take off
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < n; ++i)
      mean += static_cast<double>(x[static_cast<std::size_t>(i)]);
    mean /= static_cast<double>(n);
    for (std::int64_t i = 0; i < n; ++i) {
      variance += std::pow(static_cast<double>(x[static_cast<std::size_t>(i)]) - mean, 2);
    }
    variance /= static_cast<double>(n);
    std::vector<float> scalar(x.size());
    scalar_kernels().layernorm(x.data(), w.data(), b.data(), n, 1e-5f, scalar.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = i < static_cast<std::size_t>(n)
                              ? (x[i] - mean) / std::sqrt(variance + 1e-5) * w[i] + b[i]
                              : 0;  // the padding stays zero
      EXPECT_NEAR(scalar[i], want, 4e-6) << n << " " << i;
    }
    for (const std::string& name : runnable_families()) {
      std::vector<float> aliased = x;
      select_family(name).value()->layernorm(aliased.data(), w.data(), b.data(), n, 1e-5f,
                                             aliased.data());
      EXPECT_EQ(aliased, scalar) << name;
    }
  }
}

TEST(RmsNormSpread, RmsNormSpread_WithPaddedHeads_CountsOnlyRealElements) {
  // Three heads of 20 elements, stored 32 apart.
  std::vector<float> x(96), w(96);
  double squares = 0;
  for (std::size_t h = 0; h < 3; ++h) {
    const std::vector<float> values = random_rows(2, 20, 20, static_cast<std::uint32_t>(h) + 7);
    for (std::size_t d = 0; d < 20; ++d) {
      x[h * 32 + d] = values[d];
      w[h * 32 + d] = values[20 + d];
      squares += static_cast<double>(values[d]) * static_cast<double>(values[d]);
    }
  }
  const double scale = 1 / std::sqrt(squares / 60 + 1e-6);
  for (const std::string& name : runnable_families()) {
    std::vector<float> out = x;
    select_family(name).value()->rmsnorm_spread(out.data(), w.data(), 96, 60, 1e-6f, out.data());
    for (std::size_t i = 0; i < 96; ++i) EXPECT_NEAR(out[i], x[i] * scale * w[i], 1e-6) << name;
  }
}

TEST(AddScaled, AddScaled_EqualsOneFusedMultiplyAdd) {
  const std::vector<float> y = random_rows(1, 64, 64, 1), b = random_rows(1, 64, 64, 2);
  for (const std::string& name : runnable_families()) {
    std::vector<float> out = y;
    select_family(name).value()->add_scaled(out.data(), b.data(), 0.37f, 64);
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], std::fma(b[i], 0.37f, y[i])) << name;
  }
}

}  // namespace
}  // namespace holdfast::cpu::rows_variants_test
