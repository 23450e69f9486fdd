// Goal: kernels that multiply bytes (t2, t3) are right for every weight type, and give the same
// bits however a device computes them, for chunks, neighbours and decoding; a capability that a
// device only claims is not used. Method: the tiers are forced, and devices without such operations
// do them by ordinary ones (kernels/dots.cl), so only the instructions themselves are left to the
// trials that a device with them goes through. Random blocks against float64, the conformance
// models, every architecture against an independent float64 model.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>

#include "tests/engine/reference_model.h"
#include "tests/gpu/architectures.h"
#include "tests/gpu/one_matrix.h"
#include "tests/gpu/test_device.h"
#include "tests/gpu/watched_api.h"
#include "worker/backend/opencl/device/limits.h"
#include "worker/backend/opencl/device/probe.h"
#include "worker/backend/opencl/load.h"

namespace holdfast::bytes_test {
namespace {

using backend::Wants;
using gpu::one_matrix;
using gpu::watch;

RunOptions with_bytes(const char* tier, std::int32_t chunk = 0) {
  RunOptions options = gpu::on_device_uncached();
  options.kernels = tier;
  options.chunk = chunk;
  return options;
}

opencl::Device watched_device() {
  return opencl::select_devices(gpu::watched_api(), gpu::device()).value()[0];
}

TEST(GpuBytes, Trials_WithOrdinaryOperations_Pass) {
  HOLDFAST_NEEDS_DEVICE();
  watch() = {};
  const opencl::Device device = watched_device();
  opencl::KernelCapabilities capabilities;
  EXPECT_TRUE(opencl::passes(device, opencl::Trial::kShuffle, capabilities));
  EXPECT_TRUE(opencl::passes(device, opencl::Trial::kDot, capabilities));
  EXPECT_FALSE(opencl::passes(device, opencl::Trial::kMatrix, capabilities)) << "there is none";
  capabilities.matrix = 1;
  EXPECT_TRUE(opencl::passes(device, opencl::Trial::kMatrix, capabilities));
}

// A driver may list extensions that its compiler lacks.
TEST(GpuBytes, Probe_WhenAnExtensionFailsItsTrial_DoesNotUseIt) {
  HOLDFAST_NEEDS_DEVICE();
  watch() = {};
  const auto have = opencl::probe(watched_device(), "");
  ASSERT_TRUE(have.has_value()) << have.error().what;
  if (have->dot != 0) GTEST_SKIP() << "the device has it";
  watch().extensions = "cl_khr_integer_dot_product cl_khr_subgroup_shuffle_relative";
  const auto found = opencl::probe(watched_device(), "");
  watch() = {};
  ASSERT_TRUE(found.has_value()) << found.error().what;
  EXPECT_EQ(found->tier, 0) << found->why;
  EXPECT_EQ(found->dot, 0);
  EXPECT_EQ(found->shuffle, 0);
  EXPECT_NE(found->why.find("cl_khr_integer_dot_product, which fails its trial"), std::string::npos)
      << found->why;
}

// From the probe to the tier that a load takes.
TEST(GpuBytes, Load_WhenTheDeviceHasDotProducts_SelectsTheByteTier) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 3, 4, "q8_0");
  const auto class_of = [&](cl_uint vector_width) {
    watch() = {};
    watch().extensions = "cl_khr_integer_dot_product";
    watch().ordinary_dots = true;
    watch().vector_width = vector_width;
    const auto executor = opencl::load_with(gpu::watched_api(), gpu::device(), m.program,
                                            load_options(m, with_bytes("")));
    EXPECT_TRUE(executor.has_value()) << executor.error().what;
    watch() = {};
    return executor.has_value() ? (*executor)->capabilities().class_prefix : "";
  };
  EXPECT_EQ(class_of(1).rfind("opencl/t2.", 0), 0u);
  EXPECT_EQ(class_of(16).rfind("opencl/t0.", 0), 0u) << "its items add vectors";
}

TEST(GpuBytes, Tier_WhenUnknown_IsRefused) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 3, 4, "q8_0");
  const RunOptions options = with_bytes("t4");
  const auto refused = backend::load(options.device, m.program, load_options(m, options));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kUnsupported);
  EXPECT_NE(refused.error().what.find("expected a tier, t0, t1, t2 or t3, or clblast"),
            std::string::npos)
      << refused.error().what;
}

// Activations have 15 bits. 36 rows are a tile, and one is alone. The conformance models have most
// formats; here are the missing ones. HOLDFAST_TEST_FULL=1 takes all, here and there (PoCL compiles
// for minutes).
TEST(GpuBytes, Products_WithRandomBlocks_AgreeWithFloat64) {
  HOLDFAST_NEEDS_DEVICE();
  using T = gguf::TensorType;
  const bool all = std::getenv("HOLDFAST_TEST_FULL") != nullptr;
  const std::set<T> some = {T::kIQ1_S, T::kIQ3_XXS, T::kNVFP4, T::kTQ1_0};
  std::set<cpu::Format> tested;
  for (const T type : cpu::kernel_types()) {
    if (!all && !some.contains(type)) continue;
    if (!tested.insert(*cpu::format_of(type)).second) continue;
    const auto one = one_matrix(type);
    const std::vector<float> have = run_family(one->model, with_bytes("t2", 36));
    ASSERT_EQ(have.size(), static_cast<std::size_t>(gpu::kRows * gpu::kRows));
    for (std::int64_t a = 0; a < gpu::kRows; ++a) {
      for (std::int64_t b = 0; b < gpu::kRows; ++b) {
        const auto [sum, size] = one->product(a, b);
        ASSERT_NEAR(have[static_cast<std::size_t>(a * gpu::kRows + b)], sum, 6e-5 * size + 1e-30)
            << gguf::type_traits(type)->name << " " << a << " " << b;
      }
    }
    if (!all && type != T::kNVFP4) continue;
    EXPECT_EQ(run_family(one->model, with_bytes("t2", 1)), have) << gguf::type_traits(type)->name;
    for (const std::int32_t chunk : {36, 12}) {  // a tile, and a few rows
      EXPECT_EQ(run_family(one->model, with_bytes("t3", chunk)), have)
          << gguf::type_traits(type)->name << " " << chunk;
    }
  }
}

// A row that does not fit in local memory goes through it in parts. Rows that share a weight read
// are read from where they are, so they tell whether the parts are right.
TEST(GpuBytes, Products_WhenARowExceedsLocalMemory_HaveTheSameBits) {
  HOLDFAST_NEEDS_DEVICE();
  const std::int64_t spans = opencl::kRowLocalBytesMost / opencl::kRecordSpanBytes + 40;
  const auto one = one_matrix(gguf::TensorType::kQ8_0, spans * 32);
  const std::vector<float> have = run_family(one->model, with_bytes("t2", 1));
  EXPECT_EQ(have, run_family(one->model, with_bytes("t2", 4)));
  const auto [sum, size] = one->product(3, 7);
  EXPECT_NEAR(have[3 * gpu::kRows + 7], sum, 6e-5 * size);
}

// One format for each way to store codes and minima.
TEST(GpuBytes, Logits_WithEveryWeightType_AgreeWithOtherImplementations) {
  HOLDFAST_NEEDS_DEVICE();
  const std::set<std::string> some = {"llama-Q8_0", "llama-Q4_K_M", "llama-Q3_K_M",
                                      "llama-Q5_1", "llama-IQ4_XS", "qwen3-F32"};
  const bool all = std::getenv("HOLDFAST_TEST_FULL") != nullptr;
  const auto names = gpu::conformance_names();
  if (names.empty()) GTEST_SKIP() << "no conformance data";
  for (const std::string& name : names) {
    if (!all && !some.contains(name)) continue;
    const gpu::ConformanceCase c = gpu::conformance_case(name);
    const std::vector<float> rows = run_family(c.model, with_bytes("t2"));
    const double error = gpu::relative_error(rows, c);
    EXPECT_LT(error, name.rfind("qwen3", 0) == 0 ? 2e-3 : 3e-4) << name;
    std::printf("%-16s %.2e\n", name.c_str(), error);
    RunOptions other = with_bytes("t2", 7);
    other.neighbour = true;
    EXPECT_EQ(run_family(c.model, other), rows) << name;
  }
}

TEST(GpuBytes, Logits_WhenTiersChunksOrNeighboursDiffer_HaveTheSameBits) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("qwen2", 0, 140, "q8_0");
  const std::vector<float> all = run_family(m, with_bytes("t2"));
  for (const char* tier : {"t2", "t3"}) {
    for (const std::int32_t chunk : {0, 1, 5, 14, 29, 61}) {  // one for each kernel's row count
      RunOptions other = with_bytes(tier, chunk);
      other.neighbour = chunk > 1;
      EXPECT_EQ(run_family(m, other), all) << tier << " chunk " << chunk;
    }
  }
}

// Loops as on GPUs: several passes unrolled, and the data of the next one prefetched. PoCL compiles
// them for minutes, so each tier has one row count; HOLDFAST_TEST_FULL=1 takes all of both.
TEST(GpuBytes, Logits_WhenKernelsPrefetch_HaveTheSameBits) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 0, 70, "q8_0");
  std::vector<std::pair<const char*, std::int32_t>> cases = {{"t0", 1}, {"t3", 14}};
  if (std::getenv("HOLDFAST_TEST_FULL") != nullptr) {
    cases.insert(cases.end(), {{"t0", 14}, {"t3", 1}});
  }
  for (const auto& [tier, chunk] : cases) {
    const RunOptions options = with_bytes(tier, chunk);
    watch() = {};
    watch().type = CL_DEVICE_TYPE_GPU;
    watch().extensions = "none";
    watch().vector_width = 1;
    const auto executor =
        opencl::load_with(gpu::watched_api(), options.device, m.program, load_options(m, options));
    ASSERT_TRUE(executor.has_value()) << executor.error().what;
    EXPECT_EQ(run_on(**executor, m, options), run_family(m, options)) << tier << " " << chunk;
  }
  watch() = {};
}

// Far into a context, where splits of attention run in parallel.
TEST(GpuBytes, Logits_AcrossAttentionSplits_HaveTheSameBits) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 0, 600, "q8_0");
  const std::vector<float> all = run_family(m, with_bytes("t2"));
  reference::Model reference(*m.file, 601);
  EXPECT_LT(reference::worst_error(all, reference.logits(m.tokens)), 2e-3);
  EXPECT_EQ(run_family(m, with_bytes("t2", 599)), all);
}

// A panel that is not full holds an int8 row before the floats of a longer step come there again.
TEST(GpuBytes, Logits_AfterAShorterStep_HaveTheSameBits) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 4, 40, "q8_0");  // sizes that fill no panel
  const RunOptions options = with_bytes("t2");
  const auto executor = backend::load(options.device, m.program, load_options(m, options));
  ASSERT_TRUE(executor.has_value()) << executor.error().what;
  const std::vector<float> fresh = run_on(**executor, m, options);
  run_on(**executor, m, with_bytes("t2", 1));
  EXPECT_EQ(run_on(**executor, m, options), fresh);
}

TEST(GpuBytes, Forward_WhenAResultIsNotFinite_FailsWithNumericsNan) {
  HOLDFAST_NEEDS_DEVICE();
  const auto one = gpu::with_weight(1e30f);  // multiplied by itself
  const RunOptions options = with_bytes("t2");
  const auto executor =
      backend::load(options.device, one->model.program, load_options(one->model, options));
  ASSERT_TRUE(executor.has_value()) << executor.error().what;
  const std::int32_t pages[] = {0, 1}, fine = 4, bad = 5;
  const auto rows = (*executor)->forward(
      {{{&fine, 1, 3, pages, Wants::logits(1)}, {&bad, 1, 9, pages, Wants::logits(1)}}});
  ASSERT_FALSE(rows.has_value());
  EXPECT_EQ(rows.error().code, Errc::kNumericsNan);
  EXPECT_TRUE((*executor)->forward({{{&fine, 1, 3, pages, Wants::logits(1)}}}).has_value());
}

class GpuBytesFamilies : public ::testing::TestWithParam<std::string> {};

/// Relative error of the worst row.
double error_of(const FamilyModel& m, const std::vector<float>& have) {
  reference::Model reference(*m.file, 71);
  return reference::worst_error(
      have, m.program.shape.causal ? reference.logits(m.tokens) : reference.hidden(m.tokens));
}

/// Where two experts of a token have nearly the same score, rounding may choose another one than
/// float64, and the whole row differs: of a few models, one must have no such token.
TEST_P(GpuBytesFamilies, Logits_WithChunksAndNeighbours_AgreeWithReferenceAndRepeatBits) {
  HOLDFAST_NEEDS_DEVICE();
  FamilyModel m = make_family(GetParam(), 4, 70, "q8_0");
  std::vector<float> all = run_family(m, with_bytes("t3"));
  double error = error_of(m, all);
  for (std::uint64_t seed = 9; m.program.shape.experts > 0 && error > 3e-3 && seed < 25;
       seed += 5) {
    m = make_family(GetParam(), seed, 70, "q8_0");
    all = run_family(m, with_bytes("t3"));
    error = error_of(m, all);
  }
  EXPECT_LT(error, 3e-3);
  RunOptions options = with_bytes("t2", 32);
  options.neighbour = true;
  EXPECT_EQ(run_family(m, options), all);
}

INSTANTIATE_TEST_SUITE_P(All, GpuBytesFamilies, ::testing::ValuesIn(gpu::architectures()),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace holdfast::bytes_test
