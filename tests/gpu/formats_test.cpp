// Goal: products and look-ups are right for every weight type, whatever its blocks hold.
// Method: a program without layers whose embedding is its output, over blocks of random bytes: the
// logits after a token are that row times all rows, here in float64 over the reference's weights.
// Weights and results that are not finite are typed errors.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>

#include "tests/gpu/one_matrix.h"
#include "tests/gpu/test_device.h"
#include "tests/gpu/watched_api.h"
#include "worker/backend/opencl/load.h"

namespace holdfast::formats_test {
namespace {

using backend::Wants;
using gpu::kRows;
using gpu::one_matrix;
using gpu::with_weight;

TEST(GpuFormats, Products_WithRandomBlocks_AgreeWithFloat64) {
  HOLDFAST_NEEDS_DEVICE();
  for (const gguf::TensorType type : cpu::kernel_types()) {
    const auto one = one_matrix(type);
    const std::vector<float> have = run_family(one->model, gpu::on_device_uncached());
    ASSERT_EQ(have.size(), static_cast<std::size_t>(kRows * kRows));
    for (std::int64_t a = 0; a < kRows; ++a) {
      for (std::int64_t b = 0; b < kRows; ++b) {
        const auto [sum, size] = one->product(a, b);
        ASSERT_NEAR(have[static_cast<std::size_t>(a * kRows + b)], sum, 2e-6 * size + 1e-30)
            << gguf::type_traits(type)->name << " " << a << " " << b;
      }
    }
    RunOptions single = gpu::on_device_uncached();
    single.chunk = 1;
    EXPECT_EQ(run_family(one->model, single), have) << gguf::type_traits(type)->name;
  }
}

// An item of a GPU has one row, an item of a processor a panel. One type for each way to store
// codes, scales and minima; HOLDFAST_TEST_FULL=1 takes every format (PoCL compiles for minutes).
TEST(GpuFormats, Products_WhenWorkItemWidthsDiffer_HaveTheSameBits) {
  HOLDFAST_NEEDS_DEVICE();
  using T = gguf::TensorType;
  const std::set<T> some = {T::kF16, T::kQ4_0, T::kQ5_1, T::kQ8_0, T::kQ4_K, T::kQ6_K};
  const bool all = std::getenv("HOLDFAST_TEST_FULL") != nullptr;
  std::set<cpu::Format> tested;
  for (const gguf::TensorType type : cpu::kernel_types()) {
    if (!all && !some.contains(type)) continue;
    if (!tested.insert(*cpu::format_of(type)).second) continue;
    const auto one = one_matrix(type);
    RunOptions options = gpu::on_device_uncached();
    options.chunk = 36;  // rows together, and one alone
    std::vector<float> rows[2];
    for (const cl_uint width : {1u, 16u}) {
      gpu::watch().vector_width = width;
      const auto executor =
          opencl::load_with(gpu::watched_api(), options.device, one->model.program,
                            load_options(one->model, options));
      ASSERT_TRUE(executor.has_value()) << executor.error().what;
      rows[width == 1 ? 0 : 1] = run_on(**executor, one->model, options);
    }
    gpu::watch() = {};
    EXPECT_EQ(rows[0], rows[1]) << gguf::type_traits(type)->name;
    EXPECT_FALSE(rows[0].empty());
  }
}

// Whole layers, one row at a time and many, which items of one lane multiply in tiles.
TEST(GpuFormats, Layers_WhenWorkItemWidthsDiffer_HaveTheSameBits) {
  HOLDFAST_NEEDS_DEVICE();
  const std::pair<const char*, const char*> models[] = {{"qwen2", "q4_k_m"}, {"gemma2", "q8_0"}};
  for (const auto& [architecture, type] : models) {
    const FamilyModel m = make_family(architecture, 4, 70, type);
    std::vector<float> rows[2];
    for (const std::int32_t chunk : {0, 1}) {
      for (const cl_uint width : {1, 8}) {
        gpu::watch() = {};
        gpu::watch().vector_width = width;
        RunOptions options = gpu::on_device_uncached();
        options.chunk = chunk;
        const auto executor = opencl::load_with(gpu::watched_api(), gpu::device(), m.program,
                                                load_options(m, options));
        ASSERT_TRUE(executor.has_value()) << executor.error().what;
        rows[width == 1 ? 0 : 1] = run_on(**executor, m, options);
      }
      EXPECT_EQ(rows[0], rows[1]) << architecture << " " << chunk;
    }
  }
  gpu::watch() = {};
}

TEST(GpuFormats, Forward_WhenAResultIsNotFinite_FailsWithNumericsNan) {
  HOLDFAST_NEEDS_DEVICE();
  const auto one = with_weight(1e30f);  // multiplied by itself
  RunOptions options = gpu::on_device_uncached();
  const auto executor =
      backend::load(options.device, one->model.program, load_options(one->model, options));
  ASSERT_TRUE(executor.has_value()) << executor.error().what;
  const std::int32_t pages[] = {0, 1}, fine = 4, bad = 5;
  const auto rows = (*executor)->forward(
      {{{&fine, 1, 3, pages, Wants::logits(1)}, {&bad, 1, 9, pages, Wants::logits(1)}}});
  ASSERT_FALSE(rows.has_value());
  EXPECT_EQ(rows.error().code, Errc::kNumericsNan);
  EXPECT_NE(rows.error().what.find("segment 1, position 9"), std::string::npos)
      << rows.error().what;
  const auto best = (*executor)->forward(
      {{{&fine, 1, 3, pages, Wants::logits(1)}, {&bad, 1, 9, pages, Wants::greatest(1)}}});
  ASSERT_FALSE(best.has_value());
  EXPECT_EQ(best.error().what, rows.error().what);
  const auto top = (*executor)->forward(
      {{{&fine, 1, 3, pages, Wants::logits(1)}, {&bad, 1, 9, pages, Wants::top(3, 1)}}});
  ASSERT_FALSE(top.has_value());
  EXPECT_EQ(top.error().what, rows.error().what);
  EXPECT_TRUE((*executor)->forward({{{&fine, 1, 3, pages, Wants::logits(1)}}}).has_value());
}

// Rows of equal weights have equal logits: the lowest of them come first, whatever their number.
TEST(GpuFormats, TopLogits_WhenTied_PreferTheLowestTokenId) {
  HOLDFAST_NEEDS_DEVICE();
  const auto one = one_matrix(gguf::TensorType::kF32);
  for (const std::int64_t row : {36, 35, 30, 12, 11, 2}) {  // copies of row 1
    std::memcpy(one->matrix.file.data() + row * one->matrix.row_bytes,
                one->matrix.file.data() + one->matrix.row_bytes, one->matrix.row_bytes);
  }
  const RunOptions options = gpu::on_device_uncached();
  const auto executor =
      backend::load(options.device, one->model.program, load_options(one->model, options));
  ASSERT_TRUE(executor.has_value()) << executor.error().what;
  const std::int32_t pages[] = {0}, token = 1;  // multiplied by itself: the greatest
  for (const std::int32_t n : {1, 4, 7, 37}) {
    const auto result = (*executor)->forward({{{&token, 1, 0, pages, Wants::top(n, 1)}}});
    ASSERT_TRUE(result.has_value());
    const std::span<const backend::Ranked> top = result->top(0);
    ASSERT_EQ(top.size(), static_cast<std::size_t>(n));
    const std::int32_t alike[] = {1, 2, 11, 12, 30, 35, 36};
    for (std::size_t i = 0; i < std::min<std::size_t>(top.size(), 7); ++i)
      EXPECT_EQ(top[i].id, alike[i]) << n;
    for (std::size_t i = 1; i < top.size(); ++i) EXPECT_GE(top[i - 1].logit, top[i].logit) << n;
  }
}

TEST(GpuFormats, Load_WhenAWeightIsNotFinite_IsRefusedByName) {
  HOLDFAST_NEEDS_DEVICE();
  const auto one = with_weight(INFINITY);
  const RunOptions options = gpu::on_device_uncached();
  const auto refused =
      backend::load(options.device, one->model.program, load_options(one->model, options));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kFileInvalid);
  EXPECT_NE(refused.error().what.find("token_embd.weight: holds a NaN or infinity in row 5"),
            std::string::npos)
      << refused.error().what;
}

}  // namespace
}  // namespace holdfast::formats_test
