// Goal: a model that does not fit on its devices runs as many of its first layers as fit there, and
// the rest on the processor: within the bounds of the conformance data, with bits that depend on
// nothing but the border, which the numerics class names; devices of different sizes get what fits;
// a model that does not fit this way either is refused with numbers.
// Method: PoCL's memory made smaller (watched_api.h, HOLDFAST_OPENCL_MEMORY).

#include <gtest/gtest.h>

#include <cstring>

#include "tests/engine/reference_model.h"
#include "tests/gpu/devices.h"
#include "tests/gpu/test_device.h"
#include "tests/gpu/watched_api.h"
#include "worker/backend/opencl/device/devices.h"
#include "worker/backend/opencl/load.h"

namespace holdfast::mixed_test {
namespace {

using gpu::several_devices;
using gpu::watch;

class GpuMixed : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_DEVICE();
    watch() = {};
  }
  void TearDown() override {
    EXPECT_EQ(watch().live, 0);
    watch() = {};
  }
  static RunOptions options(const std::string& kv = "f16") {
    RunOptions o = gpu::on_device();
    o.kv = kv;
    return o;
  }
  static auto load(const std::string& device, const FamilyModel& m, const RunOptions& o) {
    return opencl::load_with(gpu::watched_api(), device, m.program, load_options(m, o));
  }
  static std::uint64_t all_bytes(const backend::Memory& m) { return m.weights + m.kv + m.scratch; }
  /// Bytes that a whole load takes of one device.
  static std::uint64_t bytes_on_one(const FamilyModel& m, const RunOptions& o) {
    const auto whole = load(gpu::device(), m, o);
    EXPECT_TRUE(whole.has_value());
    return whole.has_value() ? all_bytes((*whole)->memory()) : 0;
  }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_F(GpuMixed, Logits_WithPartialOffload_AgreeWithCpuAndRepeatTheirBits) {
  for (const char* architecture : {"llama", "gemma2", "mixtral", "gpt2", "olmo2", "bert"}) {
    const FamilyModel m = make_family(architecture, 3, 70, "q8_0");
    RunOptions o = options();
    const auto executor = load("opencl:0+cpu", m, o);
    ASSERT_TRUE(executor.has_value()) << architecture << " " << executor.error().what;
    const std::vector<float> all = run_on(**executor, m, o);
    RunOptions cpu;
    cpu.kv = o.kv;
    const std::vector<float> on_cpu = run_family(m, cpu);
    ASSERT_EQ(all.size(), on_cpu.size()) << architecture;
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double d = static_cast<double>(all[i]) - static_cast<double>(on_cpu[i]);
      error += d * d;
      norm += static_cast<double>(on_cpu[i]) * static_cast<double>(on_cpu[i]);
    }
    EXPECT_LT(error, 1e-4 * norm) << architecture;
    for (const std::int32_t chunk : {1, 33}) {
      o.chunk = chunk;
      o.neighbour = chunk > 1;
      EXPECT_TRUE(same_bits(run_on(**executor, m, o), all)) << architecture << " " << chunk;
    }
    const std::string name = (*executor)->capabilities().class_prefix;
    const std::string border = ":" + std::to_string(m.program.shape.layers - 1) + "+cpu/";
    EXPECT_EQ(name.rfind("opencl/t0.", 0), 0u) << name;
    EXPECT_NE(name.find(border), std::string::npos) << name;
  }
}

TEST_F(GpuMixed, Logits_WithPartialOffload_AgreeWithOtherImplementations) {
  const auto names = gpu::conformance_names();
  if (names.empty()) GTEST_SKIP() << "no conformance data";
  for (const std::string& name : names) {
    const gpu::ConformanceCase c = gpu::conformance_case(name);
    RunOptions o = gpu::on_device_uncached();
    o.device = "opencl:0+cpu";
    const double error = gpu::relative_error(run_family(c.model, o), c);
    const bool plain =
        name.find("f32") != std::string::npos || name.find("f16") != std::string::npos;
    EXPECT_LT(error, name.rfind("qwen3", 0) == 0              ? 2e-3
                     : plain                                  ? 1e-3
                     : name.find("bf16") != std::string::npos ? 0.01
                                                              : 0.03)
        << name;
    std::printf("%-16s %.2e\n", name.c_str(), error);
  }
}

/// The border that a class names: the number of layers on the devices.
std::int64_t border_of(const std::string& name) {
  const std::size_t end = name.find("+cpu/");
  const std::size_t at = name.rfind(':', end);
  return end == std::string::npos ? -1 : std::stoll(name.substr(at + 1, end - at - 1));
}

TEST_F(GpuMixed, DeviceLayers_WhenMemoryIsShort_AreAsManyAsFitAtEveryStart) {
  const FamilyModel m = make_family("llama", 3, 40, "q8_0");
  const RunOptions o = options();
  const std::uint64_t whole = bytes_on_one(m, o);
  std::int64_t before = m.program.shape.layers;
  for (const std::uint64_t percent : {100, 70, 55}) {
    watch().memory = whole * percent / 100;
    std::string first;
    for (int start = 0; start < 2; ++start) {
      const auto executor = load("opencl:0+cpu", m, o);
      ASSERT_TRUE(executor.has_value()) << percent << " " << executor.error().what;
      if (start == 0) first = (*executor)->capabilities().class_prefix;
      EXPECT_EQ((*executor)->capabilities().class_prefix, first);
      EXPECT_FALSE(run_on(**executor, m, o).empty());
    }
    const std::int64_t border = border_of(first);
    EXPECT_GE(border, 1);
    EXPECT_LE(border, before) << percent;
    before = border;
  }
  EXPECT_LT(before, m.program.shape.layers - 1);
}

TEST_F(GpuMixed, Load_WhenNoLayerFits_IsRefusedWithNumbers) {
  const FamilyModel m = make_family("llama", 3, 40, "q8_0");
  watch().memory = 100'000;
  for (const char* device : {"opencl:0+cpu", "opencl:0+0"}) {
    const auto refused = load(device, m, options());
    ASSERT_FALSE(refused.has_value()) << device;
    EXPECT_EQ(refused.error().code, Errc::kMemoryExhausted);
    EXPECT_NE(refused.error().what.find("100000 are free"), std::string::npos)
        << refused.error().what;
  }
}

TEST_F(GpuMixed, Layers_WithUnequalDevices_GoWhereTheyFitAndChangeNoBit) {
  const FamilyModel m = make_family("llama", 3, 40, "q8_0");
  const std::string device = several_devices(4, '+');
  if (device != "opencl:0+1+2+3") GTEST_SKIP() << "there are no four devices";
  ASSERT_GE(m.program.shape.layers, 4);
  const RunOptions o = options();
  const std::vector<float> expected = run_family(m, o);
  const std::uint64_t whole = bytes_on_one(m, o);
  const std::string limits = std::to_string(2 * whole) + "," + std::to_string(whole * 2 / 3) +
                             ",," + std::to_string(whole * 3 / 4);
  setenv("HOLDFAST_OPENCL_MEMORY", limits.c_str(), 1);
  const auto executor = load(device, m, o);
  ASSERT_TRUE(executor.has_value()) << executor.error().what;
  EXPECT_TRUE(same_bits(run_on(**executor, m, o), expected));
  const auto devices = opencl::select_devices(gpu::watched_api(), device).value();
  EXPECT_EQ(devices[0].memory, 2 * whole);
  EXPECT_EQ(devices[1].memory, whole * 2 / 3);
  EXPECT_GT(devices[2].memory, 2 * whole);  // no limit
  EXPECT_EQ(devices[3].memory, whole * 3 / 4);
  setenv("HOLDFAST_OPENCL_MEMORY", "100000", 1);
  EXPECT_EQ(load(device, m, o).error().code, Errc::kMemoryExhausted);
  unsetenv("HOLDFAST_OPENCL_MEMORY");
}

}  // namespace
}  // namespace holdfast::mixed_test
