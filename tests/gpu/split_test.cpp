// Goal: a model over several devices by layers has the bits of one device, takes what its parts
// take, and gives all of it back when one of them fails. Method: PoCL is asked for two devices;
// where there is one alone it is named twice. Models of every shape of program; the device's
// functions watched (watched_api.h).

#include "worker/backend/opencl/split.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/gpu/house.h"
#include "tests/gpu/watched_api.h"
#include "worker/backend/opencl.h"
#include "worker/backend/opencl/load.h"

namespace holdfast {
namespace {

using gpu::watch;

/// Before anything of OpenCL runs in this process.
const bool g_asked = setenv("POCL_DEVICES", "pthread pthread", 0) == 0;

std::string two_devices() {
  const auto found = opencl::find_devices(false);
  return g_asked && found.has_value() && found->size() > 1 ? "opencl:0+1" : "opencl:0+0";
}

auto load_on(const std::string& device, const FamilyModel& m, const RunOptions& options) {
  return opencl::load_with(gpu::watched_api(), device, m.program, load_options(m, options));
}

TEST(GpuSplit, LayersOverDevicesHaveTheBitsOfOne) {
  HF_NEEDS_DEVICE();
  watch() = {};
  for (const char* architecture : {"llama", "gemma2", "mixtral", "olmo2", "gpt2", "bert"}) {
    const FamilyModel m = make_family(architecture, 3, 40, "q8_0");
    RunOptions options = gpu::on_device();
    options.kv = "f16";
    const std::vector<float> expected = run_family(m, options);
    std::vector<std::string> splits = {two_devices()};
    if (m.program.shape.layers > 2) splits.push_back("opencl:0+0+0");
    for (const std::string& device : splits) {
      const auto executor = load_on(device, m, options);
      ASSERT_TRUE(executor.has_value()) << executor.error().what;
      for (const std::int32_t chunk : {0, 9}) {
        options.chunk = chunk;
        options.neighbour = chunk > 0;
        EXPECT_EQ(run_on(**executor, m, options), expected) << architecture << " " << device;
      }
      options.chunk = 0;
      options.neighbour = false;
    }
  }
  EXPECT_EQ(watch().live, 0);
}

TEST(GpuSplit, MemoryIsThatOfAllPartsAndIsGivenBackWhenTheLastOneFails) {
  HF_NEEDS_DEVICE();
  watch() = {};
  const FamilyModel m = make_family("llama", 0, 40, "q8_0");
  const RunOptions options = gpu::on_device();
  const auto whole = backend::load(gpu::device(), m.program, load_options(m, options));
  ASSERT_TRUE(whole.has_value());
  std::int64_t creations = 0;
  {
    const auto split = load_on(two_devices(), m, options);
    ASSERT_TRUE(split.has_value()) << split.error().what;
    EXPECT_EQ((*split)->memory().kv, (*whole)->memory().kv);
    // The embedding is the output too, and both ends have it.
    EXPECT_GT((*split)->memory().weights, (*whole)->memory().weights);
    creations = watch().creations;
  }
  for (std::int64_t n = creations; n > creations / 2; n -= 3) {
    watch() = {};
    watch().fail_at = n;
    { const auto refused = load_on(two_devices(), m, options); }
    EXPECT_EQ(watch().live, 0) << n;
  }
  watch() = {};
}

TEST(GpuSplit, LayersFollowMemory) {
  using Shares = std::vector<std::int64_t>;
  EXPECT_EQ(opencl::share_layers(32, {80, 80}), (Shares{16, 16}));
  EXPECT_EQ(opencl::share_layers(32, {24, 8}), (Shares{24, 8}));
  EXPECT_EQ(opencl::share_layers(4, {1000, 1, 1}), (Shares{2, 1, 1}));
  EXPECT_EQ(opencl::share_layers(4, {1, 1, 1000}), (Shares{1, 1, 2}));
  EXPECT_EQ(opencl::share_layers(3, {0, 0, 0}), (Shares{1, 1, 1}));
}

TEST(GpuSplit, NamesOfDevices) {
  using Numbers = std::vector<int>;
  EXPECT_EQ(opencl::device_numbers("opencl"), Numbers{0});
  EXPECT_EQ(opencl::device_numbers("opencl:2"), Numbers{2});
  EXPECT_EQ(opencl::device_numbers("opencl:0+1+12"), (Numbers{0, 1, 12}));
  for (const char* wrong : {"opencl:", "opencl:a", "opencl:0+", "opencl:+1", "opencl:-1", "cpu"}) {
    EXPECT_EQ(opencl::device_numbers(wrong), Numbers{}) << wrong;
  }
  HF_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 0, 8);
  const auto refused = load_on("opencl:0+0+0+0+0+0+0+0+0", m, gpu::on_device());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kUsage);
}

}  // namespace
}  // namespace holdfast
