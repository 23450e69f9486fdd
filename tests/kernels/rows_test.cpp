// Goal: the row kernels compute what their names say, with the same bits in every family.
// Method: exp against long double over its whole range in ulps; norm, silu and rotation against
// float64; every output compared bit for bit with the scalar family.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/fp8.h"
#include "tests/kernels/random_matrix.h"
#include "worker/backend/cpu/family.h"

namespace holdfast::cpu::rows_test {
namespace {

std::vector<const Kernels*> all_kernels() {
  std::vector<const Kernels*> out;
  for (const std::string& name : runnable_families()) out.push_back(select_family(name).value());
  return out;
}

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b, const char* who) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << who;
}

double ulp_of(double value) {
  const double smallest = std::ldexp(1.0, -149);
  if (value < std::ldexp(1.0, -126)) return smallest;
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, exponent - 24);
}

TEST(Exp, Exp_InEveryFamily_IsWithinTwoUlpsAndHasTheSameBits) {
  std::vector<float> x;
  for (float v = -120.0f; v < 95.0f; v += 0.00390625f * 1.37f) x.push_back(v);
  for (float v : {0.0f, -0.0f, 88.7228f, -103.9f, -87.34f, 1e30f, -1e30f}) x.push_back(v);
  while (x.size() % 16 != 0) x.push_back(1.0f);
  std::vector<float> scalar(x.size()), out(x.size());
  scalar_kernels().exp(x.data(), scalar.data(), static_cast<std::int64_t>(x.size()));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    if (exact > static_cast<double>(std::numeric_limits<float>::max())) {
      EXPECT_EQ(scalar[i], std::numeric_limits<float>::infinity()) << x[i];
      continue;
    }
    const double ulps = std::fabs(static_cast<double>(scalar[i]) - exact) / ulp_of(exact);
    worst = std::max(worst, ulps);
    ASSERT_LE(ulps, 2.0) << x[i];
  }
  RecordProperty("worst_ulps", std::to_string(worst));
  for (const Kernels* kernels : all_kernels()) {
    kernels->exp(x.data(), out.data(), static_cast<std::int64_t>(x.size()));
    expect_same_bits(out, scalar, kernels->name);
  }
}

TEST(Exp, Exp_AtItsLimits_IsExact) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x(16, std::numeric_limits<float>::quiet_NaN()), out(16);
  x[0] = -inf;
  x[1] = inf;
  x[2] = 0;
  for (const Kernels* kernels : all_kernels()) {
    kernels->exp(x.data(), out.data(), 16);
    EXPECT_EQ(out[0], 0.0f);
    EXPECT_EQ(out[1], inf);
    EXPECT_EQ(out[2], 1.0f);
    EXPECT_TRUE(std::isnan(out[3])) << kernels->name;
  }
}

TEST(RmsNorm, Kernels_InEveryFamily_AgreeWithFloat64) {
  for (const std::int64_t n : {16, 40, 64, 896}) {
    const std::vector<float> x = random_rows(1, n, round_up(n, 16), 21);
    const std::vector<float> w = random_rows(1, n, round_up(n, 16), 22);
    std::vector<float> scalar(x.size());
    scalar_kernels().rmsnorm(x.data(), w.data(), n, 1e-6f, scalar.data());
    double squares = 0;
    for (const float v : x) squares += static_cast<double>(v) * v;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-6);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(scalar[i], x[i] * scale * w[i], 1e-6 * std::fabs(x[i] * scale * w[i]) + 1e-37);
    }
    for (const Kernels* kernels : all_kernels()) {
      std::vector<float> aliased = x;
      kernels->rmsnorm(aliased.data(), w.data(), n, 1e-6f, aliased.data());
      expect_same_bits(aliased, scalar, kernels->name);
    }
  }
}

TEST(SiluMul, Kernels_InEveryFamily_AgreeWithFloat64) {
  std::vector<float> gate = random_rows(1, 512, 512, 23);
  for (float& g : gate) g *= 20;
  gate[0] = -200;
  gate[1] = 200;
  const std::vector<float> up = random_rows(1, 512, 512, 24);
  std::vector<float> scalar = gate;
  scalar_kernels().silu_mul(scalar.data(), up.data(), 512);
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double g = gate[i];
    const double exact = g / (1 + std::exp(-g)) * up[i];
    EXPECT_NEAR(scalar[i], exact, 1e-6 * std::fabs(exact) + 1e-37) << g;
  }
  for (const Kernels* kernels : all_kernels()) {
    std::vector<float> out = gate;
    kernels->silu_mul(out.data(), up.data(), 512);
    expect_same_bits(out, scalar, kernels->name);
  }
}

TEST(Rope, Rope_InBothStyles_RotatesPairs) {
  const std::vector<float> head = random_rows(1, 64, 64, 25);
  std::vector<float> c(24), s(24);
  for (std::size_t i = 0; i < c.size(); ++i) {
    c[i] = std::cos(0.1f * static_cast<float>(i));
    s[i] = std::sin(0.1f * static_cast<float>(i));
  }
  for (const bool neox : {false, true}) {
    const RopeRow row{c.data(), s.data(), 24, neox};
    std::vector<float> scalar = head;
    scalar_kernels().rope(scalar.data(), row);
    for (std::size_t i = 0; i < 24; ++i) {
      const std::size_t a = neox ? i : 2 * i;
      const std::size_t b = neox ? i + 24 : 2 * i + 1;
      EXPECT_NEAR(scalar[a], head[a] * c[i] - head[b] * s[i], 1e-6);
      EXPECT_NEAR(scalar[b], head[a] * s[i] + head[b] * c[i], 1e-6);
    }
    for (std::size_t i = 48; i < 64; ++i) EXPECT_EQ(scalar[i], head[i]);  // not rotated
    for (const Kernels* kernels : all_kernels()) {
      std::vector<float> out = head;
      kernels->rope(out.data(), row);
      expect_same_bits(out, scalar, kernels->name);
    }
  }
}

TEST(StoreKv, StoreKv_WithF16_RoundsToNearestEvenInEveryFamily) {
  std::vector<float> v;
  for (std::uint32_t i = 0; i < 65536; i += 3) {  // every exponent, and points between halves
    const float h = gguf::half_to_float(static_cast<std::uint16_t>(i));
    if (!std::isfinite(h)) continue;
    v.push_back(h);
    v.push_back(h * (1 + 0x1p-12f));
    v.push_back(h * (1 + 0x1p-11f));
  }
  for (float extreme : {65519.0f, 65520.0f, 1e9f, 0x1p-25f, 0x1.8p-25f, 0x1p-26f, 1e-40f}) {
    v.push_back(extreme);
    v.push_back(-extreme);
  }
  while (v.size() % 16 != 0) v.push_back(0);
  const auto n = static_cast<std::int32_t>(v.size());
  for (const Kernels* kernels : all_kernels()) {
    std::vector<std::uint16_t> values(v.size()), keys(v.size() * kPageTokens);
    kernels->store_value(v.data(), n, 0, KvType::kF16,
                         reinterpret_cast<std::uint8_t*>(values.data()));
    kernels->store_key(v.data(), n, 0, KvType::kF16, reinterpret_cast<std::uint8_t*>(keys.data()));
    for (std::size_t i = 0; i < v.size(); ++i) {
      ASSERT_EQ(values[i], gguf::float_to_half(v[i])) << kernels->name << " " << v[i];
      ASSERT_EQ(keys[i * kPageTokens], values[i]) << kernels->name << " " << v[i];
    }
  }
}

TEST(StoreKv, StoreKv_WithInt8_StoresAScalePerTokenAndMarksNaN) {
  constexpr std::int64_t kPad = 80, kDim = 72;
  std::vector<float> v(kPad, 0.0f);
  for (std::size_t i = 0; i < kDim; ++i) v[i] = 0.01f * static_cast<float>(i) - 0.3f;
  for (const Kernels* kernels : all_kernels()) {
    std::vector<std::uint8_t> page(static_cast<std::size_t>(head_page_bytes(KvType::kInt8, kPad)));
    kernels->store_value(v.data(), kPad, 5, KvType::kInt8, page.data());
    float scale = 0;
    std::memcpy(&scale, page.data() + kPad * kPageTokens + 4 * 5, 4);
    EXPECT_EQ(scale, v[71] / 127.0f) << kernels->name;
    for (std::size_t i = 0; i < kPad; ++i) {
      const auto code = static_cast<std::int8_t>(page[5 * kPad + i]);
      EXPECT_EQ(code, std::nearbyint(v[i] * (127.0f / v[71]))) << kernels->name << " " << i;
    }
    for (const float bad : {std::nanf(""), INFINITY}) {
      std::vector<float> broken = v;
      broken[40] = bad;
      kernels->store_key(broken.data(), kDim, 63, KvType::kInt8, page.data());
      std::memcpy(&scale, page.data() + kPad * kPageTokens + 4 * 63, 4);
      EXPECT_TRUE(std::isnan(scale)) << kernels->name;
    }
  }
}

TEST(StoreKv, StoreKv_WithFp8_RoundsToNearestEvenAndEndsAt448) {
  std::vector<float> v;
  for (int code = 0; code < 0x7f; ++code) {
    const float here = fp8_value(static_cast<std::uint8_t>(code));
    const float next = code < 0x7e ? fp8_value(static_cast<std::uint8_t>(code + 1)) : 480;
    const float middle = (here + next) / 2;
    for (const float x :
         {here, std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e9f)}) {
      v.push_back(x);
      v.push_back(-x);
    }
  }
  for (const float x : {481.0f, 1e30f, INFINITY, std::nanf(""), 1e-9f, 1e-42f}) v.push_back(x);
  while (v.size() % 16 != 0) v.push_back(0);
  const auto n = static_cast<std::int32_t>(v.size());
  for (const Kernels* kernels : all_kernels()) {
    std::vector<std::uint8_t> values(v.size()), keys(v.size() * kPageTokens);
    kernels->store_value(v.data(), n, 0, KvType::kFp8, values.data());
    kernels->store_key(v.data(), n, 0, KvType::kFp8, keys.data());
    for (std::size_t i = 0; i < v.size(); ++i) {
      ASSERT_EQ(values[i], nearest_fp8(v[i])) << kernels->name << " " << v[i];
      ASSERT_EQ(keys[i * kPageTokens], values[i]) << kernels->name << " " << v[i];
    }
  }
}

TEST(StoreKv, StoreKv_WithBf16_RoundsToNearestEven) {
  std::vector<float> v;
  for (std::uint32_t i = 0; i < 0xffff0000u; i += 0x7fff0) {
    float f = 0;
    std::memcpy(&f, &i, 4);
    if (std::isfinite(f)) v.push_back(f);
  }
  while (v.size() % 16 != 0) v.push_back(0);
  for (const Kernels* kernels : all_kernels()) {
    std::vector<std::uint16_t> values(v.size());
    kernels->store_value(v.data(), static_cast<std::int32_t>(v.size()), 0, KvType::kBF16,
                         reinterpret_cast<std::uint8_t*>(values.data()));
    for (std::size_t i = 0; i < v.size(); ++i)
      ASSERT_EQ(values[i], gguf::float_to_bf16(v[i])) << v[i];
  }
}

}  // namespace
}  // namespace holdfast::cpu::rows_test
