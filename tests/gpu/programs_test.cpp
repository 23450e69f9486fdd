// Goal: a second start builds nothing from source, and no file on disk can make it compute
// something else: damaged files are replaced by new builds. Method: loads with a cache folder of
// their own; builds are counted where the device is asked for them (watched_api.h); files are
// truncated, changed and exchanged by hand.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <tuple>

#include "tests/gpu/devices.h"
#include "tests/gpu/test_device.h"
#include "tests/gpu/watched_api.h"
#include "worker/backend/opencl/device/program_cache.h"
#include "worker/backend/opencl/load.h"

namespace holdfast::programs_test {
namespace {

namespace fs = std::filesystem;
using gpu::watch;

/// Gives each test a cache folder, and deletes it afterwards.
class GpuPrograms : public ::testing::Test {
 protected:
  void SetUp() override {
    watch() = {};
    folder_ = fs::temp_directory_path() / ("holdfast-programs-" + std::to_string(getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Loads, runs once, unloads; gives the logits.
  std::vector<float> start(const FamilyModel& m, const std::string& device = gpu::device()) {
    RunOptions options = gpu::on_device();
    options.cache_dir = folder_.string();
    watch() = {};
    watch().extensions = "none";  // else a GPU's capabilities are tried, which builds too
    const auto executor =
        opencl::load_with(gpu::watched_api(), device, m.program, load_options(m, options));
    EXPECT_TRUE(executor.has_value()) << executor.error().what;
    return executor.has_value() ? run_on(**executor, m, options) : std::vector<float>();
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(folder_)) out.push_back(entry.path());
    return out;
  }

  fs::path folder_;
};

TEST_F(GpuPrograms, SecondStart_WithAProgramCache_BuildsNothing) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 0, 20, "q8_0");
  const std::vector<float> first = start(m);
  EXPECT_EQ(watch().builds, 3);  // products, rows, pages
  EXPECT_EQ(files().size(), 3u);
  EXPECT_EQ(start(m), first);
  EXPECT_EQ(watch().builds, 0);
}

// The programs of the probe are cached too.
TEST_F(GpuPrograms, SecondStart_WhenTheDeviceIsProbed_BuildsNothing) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 0, 20, "q8_0");
  RunOptions options = gpu::on_device();
  options.cache_dir = folder_.string();
  options.kernels.clear();
  for (const std::int64_t builds : {4, 0}) {
    watch() = {};
    watch().extensions = "cl_khr_integer_dot_product";
    watch().ordinary_dots = true;
    watch().vector_width = 1;
    const auto executor =
        opencl::load_with(gpu::watched_api(), gpu::device(), m.program, load_options(m, options));
    ASSERT_TRUE(executor.has_value()) << executor.error().what;
    EXPECT_EQ((*executor)->capabilities().class_prefix.rfind("opencl/t2.", 0), 0u);
    EXPECT_FALSE(run_on(**executor, m, options).empty());
    EXPECT_EQ(watch().builds, builds);
  }
}

// A driver may list a program's binaries by the devices of its context or by those that it was
// built for; all of them build here.
TEST_F(GpuPrograms, ProgramCache_WithSeveralDevicesOfOneContext_HasTheirBinaries) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 0, 20, "q8_0");
  const std::string two = gpu::several_devices(2, '+');
  const std::vector<float> first = start(m, two);
  EXPECT_GE(watch().builds, 3);
  EXPECT_GE(files().size(), 3u);
  EXPECT_EQ(start(m, two), first);
  EXPECT_EQ(watch().builds, 0);
}

TEST_F(GpuPrograms, CachedPrograms_WhenDamaged_AreRebuilt) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 0, 20, "q8_0");
  const std::vector<float> first = start(m);
  const std::vector<fs::path> all = files();
  ASSERT_EQ(all.size(), 3u);
  fs::resize_file(all[0], fs::file_size(all[0]) - 1);
  {
    std::fstream changed(all[1], std::ios::in | std::ios::out | std::ios::binary);
    changed.seekp(static_cast<std::streamoff>(fs::file_size(all[1]) / 2));
    changed.put('\x55').put('\xaa').put('\x55');
  }
  std::ofstream(all[2], std::ios::trunc) << "";
  EXPECT_EQ(start(m), first);
  EXPECT_EQ(watch().builds, 3);
  EXPECT_EQ(start(m), first);
  EXPECT_EQ(watch().builds, 0);
}

// The file is whole, but not what the driver expects: as after an update that left its version.
TEST_F(GpuPrograms, CachedProgram_WhenTheDriverRefusesIt_IsRebuilt) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 0, 20, "q8_0");
  const std::vector<float> first = start(m);
  for (const fs::path& path : files()) {
    opencl::ProgramCache(folder_.string()).write(path.stem().string(), "no program");
  }
  EXPECT_EQ(start(m), first);
  EXPECT_EQ(watch().builds, 3);
}

TEST_F(GpuPrograms, CacheFolder_WhenNotWritable_CostsOnlyARebuild) {
  HOLDFAST_NEEDS_DEVICE();
  std::ofstream(folder_) << "a file where the folder should be";
  const FamilyModel m = make_family("llama", 0, 20, "q8_0");
  EXPECT_FALSE(start(m).empty());
  EXPECT_FALSE(start(m).empty());
  EXPECT_EQ(watch().builds, 3);
}

/// Launches of a step of `n` tokens of one sequence at `start`, without the model's two ends.
std::int64_t launches_of(backend::Executor& executor, const FamilyModel& m, std::int32_t n,
                         std::int64_t start) {
  std::vector<std::int32_t> pages(20);
  std::iota(pages.begin(), pages.end(), 0);
  backend::Segment segment{m.tokens.data(), n, start, pages.data()};
  segment.wants = backend::Wants::deferred_logits();  // all layers, and no logits
  watch() = {};
  EXPECT_TRUE(executor.forward({{segment}}).has_value());
  return watch().launches - 2;  // tokens are looked up and prepared for the first norm
}

// Launches cost more than most kernels of one token compute. A step is one token, or a few with
// draft tokens; far into a context, splits of attention run in parallel and are merged.
TEST_F(GpuPrograms, DecodeStep_ForEachLayer_LaunchesAtMostSixKernels) {
  HOLDFAST_NEEDS_DEVICE();
  const std::tuple<const char*, const char*, const char*> models[] = {
      {"llama", "q8_0", "t0"},   {"llama", "q4_k_m", "t0"}, {"qwen2", "q4_0", "t0"},
      {"qwen3", "f16", "t0"},    {"mistral", "q8_0", "t0"}, {"llama", "q8_0", "t2"},
      {"qwen2", "q4_k_m", "t2"}, {"qwen3", "q8_0", "t2"}};
  for (const auto& [architecture, type, tier] : models) {
    const FamilyModel m = make_family(architecture, 0, 700, type);
    RunOptions options = gpu::on_device();
    options.kernels = tier;
    const auto executor =
        opencl::load_with(gpu::watched_api(), gpu::device(), m.program, load_options(m, options));
    ASSERT_TRUE(executor.has_value()) << executor.error().what;
    const std::int64_t layers = m.program.shape.layers;
    for (const std::int32_t n : {1, 8}) {
      EXPECT_EQ(launches_of(**executor, m, n, 0), 5 * layers)
          << architecture << " " << tier << " " << n;
    }
    const std::int64_t far = launches_of(**executor, m, 1, 600);
    EXPECT_EQ(far, (m.program.shape.heads < 8 ? 6 : 5) * layers) << architecture;
  }
}

TEST_F(GpuPrograms, CacheKey_WithOtherPartsOfOneText_Differs) {
  EXPECT_EQ(opencl::cache_key({"ab", "c"}).size(), 64u);
  EXPECT_NE(opencl::cache_key({"ab", "c"}), opencl::cache_key({"a", "bc"}));
  EXPECT_NE(opencl::cache_key({"ab", "c"}), opencl::cache_key({"abc"}));
}

}  // namespace
}  // namespace holdfast::programs_test
