// Goal: device memory is owned. A load gives back all that it takes, whatever fails and wherever; a
// load that does not fit is refused with numbers before anything is allocated; a request allocates
// nothing; a small bound on single buffers changes no bit.
// Method: the device's functions with a watch in between (watched_api.h) that counts and fails.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "tests/gpu/test_device.h"
#include "tests/gpu/watched_api.h"
#include "worker/backend/opencl/device/device_context.h"
#include "worker/backend/opencl/device/queue.h"
#include "worker/backend/opencl/load.h"

namespace holdfast::memory_test {
namespace {

using backend::Wants;
using gpu::watch;

/// Checks after each test that all device objects have been released.
class GpuMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_DEVICE();
    watch() = {};
  }
  void TearDown() override {
    if (gpu::device().empty()) return;
    EXPECT_EQ(watch().live, 0);
    watch() = {};
  }
  static RunOptions options() {
    RunOptions o = gpu::on_device();
    o.kv = "f16";
    return o;
  }
  static auto load(const FamilyModel& m) {
    return opencl::load_with(gpu::watched_api(), gpu::device(), m.program,
                             load_options(m, options()));
  }
  /// The logits of a device of this type, whose load is to use `pinned` buffers of pinned memory,
  /// one of them for the inputs and results of a step;
  /// `late`: writes that nobody waits for are late.
  static std::vector<float> rows_on(const FamilyModel& m, cl_device_type type, bool late,
                                    std::int64_t pinned) {
    watch() = {};
    watch().type = type;
    watch().late_writes = late;
    const auto executor = load(m);
    EXPECT_TRUE(executor.has_value()) << executor.error().what;
    EXPECT_EQ(watch().pinned, pinned);
    EXPECT_EQ(watch().late > 10, late);
    watch().late_writes = false;
    return executor.has_value() ? run_on(**executor, m, options()) : std::vector<float>();
  }
};

TEST_F(GpuMemory, Load_WhenAnyCreationFails_FreesAllMemory) {
  const FamilyModel m = make_family("llama", 0, 20, "q8_0");
  watch().type = CL_DEVICE_TYPE_GPU;  // weights go through pinned memory
  std::vector<float> expected;
  {
    auto whole = load(m);
    ASSERT_TRUE(whole.has_value()) << whole.error().what;
    expected = run_on(**whole, m, options());
  }
  ASSERT_EQ(watch().live, 0);
  const std::int64_t creations = watch().creations;
  ASSERT_GT(creations, 40);
  std::int64_t n = 1;
  for (; n <= creations; ++n) {
    watch() = {};
    watch().type = CL_DEVICE_TYPE_GPU;
    watch().fail_at = n;
    auto executor = load(m);
    if (executor.has_value()) {  // a cached program was rebuilt, or the run fails
      const std::int32_t page = 0;
      const auto rows =
          (*executor)->forward({{{m.tokens.data(), 20, 0, &page, Wants::logits(20)}}});
      EXPECT_TRUE(rows.has_value() || rows.error().code == Errc::kModelFailed) << n;
      EXPECT_EQ(run_on(**executor, m, options()), expected) << n;
    } else {
      const Errc code = executor.error().code;
      EXPECT_TRUE(code == Errc::kMemoryExhausted || code == Errc::kModelFailed)
          << n << " " << executor.error().what;
    }
    executor = Error{Errc::kCancelled, ""};
    ASSERT_EQ(watch().live, 0) << n;
    if (watch().creations < n) break;  // the last ones belong to the run above
  }
  EXPECT_GT(n, 40);
}

TEST_F(GpuMemory, Load_WhenEveryNthCreationFails_FreesAllMemory) {
  const FamilyModel m = make_family("llama", 0, 20, "q8_0");
  int loaded = 0;
  const auto uncached = load_options(m, gpu::on_device_uncached());
  for (std::int64_t n = 1; n <= 100; ++n) {
    watch() = {};
    watch().fail_every = n;
    auto executor = opencl::load_with(gpu::watched_api(), gpu::device(), m.program, uncached);
    if (executor.has_value()) {
      ++loaded;
      const std::int32_t page = 0;
      const backend::Batch batch{{{m.tokens.data(), 20, 0, &page, Wants::logits(20)}}};
      const auto rows = (*executor)->forward(batch);
      EXPECT_TRUE(rows.has_value() || rows.error().code == Errc::kModelFailed) << n;
    } else {
      const Errc code = executor.error().code;
      EXPECT_TRUE(code == Errc::kMemoryExhausted || code == Errc::kModelFailed)
          << n << " " << executor.error().what;
    }
    executor = Error{Errc::kCancelled, ""};
    ASSERT_EQ(watch().live, 0) << n;
  }
  EXPECT_GT(loaded, 0);
  watch() = {};
  EXPECT_TRUE(load(m).has_value());
}

TEST_F(GpuMemory, Forward_AfterLoad_AllocatesNothingAndUnloadFreesAll) {
  const FamilyModel m = make_family("mixtral", 0, 20, "q8_0");
  for (int cycle = 0; cycle < 100; ++cycle) {
    auto executor = load(m);
    ASSERT_TRUE(executor.has_value()) << executor.error().what;
    const std::int64_t live = watch().live;
    const std::int32_t page = 0;
    ASSERT_TRUE(
        (*executor)->forward({{{m.tokens.data(), 3, 0, &page, Wants::logits(1)}}}).has_value());
    EXPECT_EQ(watch().live, live);
    const backend::Memory memory = (*executor)->memory();
    EXPECT_TRUE(memory.on_device);
    EXPECT_GT(memory.weights, 0u);
    executor = Error{Errc::kCancelled, ""};
    ASSERT_EQ(watch().live, 0) << cycle;
  }
}

TEST_F(GpuMemory, Load_WhenItDoesNotFit_IsRefusedWithNumbersBeforeAllocating) {
  const FamilyModel m = make_family("llama", 0, 20);
  watch().memory = 1'000'000;
  const auto refused = load(m);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kMemoryExhausted);
  EXPECT_NE(refused.error().what.find("1000000 are free"), std::string::npos)
      << refused.error().what;
  EXPECT_LE(watch().creations, 2);  // a context and a queue
}

TEST_F(GpuMemory, SecondLoad_WhenTheFirstLeavesTooLittle_IsRefused) {
  const FamilyModel m = make_family("llama", 0, 20);
  auto first = load(m);
  ASSERT_TRUE(first.has_value());
  const backend::Memory taken = (*first)->memory();
  const std::uint64_t one = taken.weights + taken.kv + taken.scratch;
  first = Error{Errc::kCancelled, ""};
  watch().memory = one + one / 2;
  first = load(m);
  ASSERT_TRUE(first.has_value()) << first.error().what;
  EXPECT_EQ(load(m).error().code, Errc::kMemoryExhausted);
  first = Error{Errc::kCancelled, ""};
  EXPECT_TRUE(load(m).has_value());
}

TEST_F(GpuMemory, Logits_WhenBufferSizeIsLimited_HaveTheSameBits) {
  for (const auto& [architecture, type] :
       std::vector<std::pair<std::string, std::string>>{{"llama", "f32"}, {"mixtral", "q8_0"}}) {
    const FamilyModel m = make_family(architecture, 0, 20, type);
    watch() = {};
    auto whole = load(m);
    ASSERT_TRUE(whole.has_value()) << whole.error().what;
    const std::vector<float> expected = run_on(**whole, m, options());
    const std::int64_t in_one = watch().live;
    whole = Error{Errc::kCancelled, ""};
    watch().max_alloc = 100'000;
    const auto split = load(m);
    ASSERT_TRUE(split.has_value()) << split.error().what;
    EXPECT_GT(watch().live, in_one + 2);
    EXPECT_EQ(run_on(**split, m, options()), expected);
  }
}

TEST_F(GpuMemory, Load_WhenAnExpertExceedsABuffer_IsRefusedByName) {
  const FamilyModel m = make_family("mixtral", 0, 20, "f32");
  watch().max_alloc = 100'000;
  const auto refused = load(m);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kMemoryExhausted);
  EXPECT_NE(refused.error().what.find("ffn_gate_exps"), std::string::npos) << refused.error().what;
}

TEST_F(GpuMemory, Forward_WhenTheDeviceFails_ReturnsModelFailed) {
  const FamilyModel m = make_family("llama", 0, 20);
  const auto executor = load(m);
  ASSERT_TRUE(executor.has_value());
  watch().fail_launches = CL_OUT_OF_RESOURCES;
  const std::int32_t page = 0;
  const auto rows = (*executor)->forward({{{m.tokens.data(), 20, 0, &page, Wants::logits(1)}}});
  ASSERT_FALSE(rows.has_value());
  EXPECT_EQ(rows.error().code, Errc::kModelFailed);
  EXPECT_NE(rows.error().what.find("CL_OUT_OF_RESOURCES"), std::string::npos);
}

// A part is packed while the one before it is in transit; none overwrites one in transit.
TEST_F(GpuMemory, WeightUpload_WhenWritesAreLate_UsesPinnedBuffersInTurn) {
  const FamilyModel m = make_family("llama", 0, 20, "q8_0");
  const auto expected = rows_on(m, CL_DEVICE_TYPE_GPU, false, 3);
  EXPECT_EQ(rows_on(m, CL_DEVICE_TYPE_GPU, true, 3), expected);
}

// A processor has its large buffers in memory that we map, and weights are packed in place.
TEST_F(GpuMemory, WeightUpload_WhenTheDeviceIsTheHost_CopiesNothing) {
  const FamilyModel m = make_family("llama", 0, 20, "q8_0");
  const auto expected = rows_on(m, CL_DEVICE_TYPE_GPU, false, 3);
  EXPECT_EQ(rows_on(m, CL_DEVICE_TYPE_CPU, false, 1), expected);
}

TEST_F(GpuMemory, LargeHostBuffers_WhenTaken_AreZeroAndHoldWhatIsWritten) {
  watch().type = CL_DEVICE_TYPE_CPU;
  auto selected = opencl::select_devices(gpu::watched_api(), gpu::device());
  ASSERT_TRUE(selected.has_value());
  const auto device_context = opencl::DeviceContext::open(selected->at(0)).value();
  opencl::Queue queue(gpu::watched_api(), device_context->make_queue().value(), 0);
  const std::uint64_t bytes = (9 << 20) + 256;
  const opencl::Buffer buffer = device_context->memory().take(queue.get(), bytes, "test").value();
  EXPECT_GE(buffer.bytes(), bytes);
  std::vector<std::uint8_t> there(bytes, 1);
  queue.read(buffer.get(), 0, there.data(), bytes);
  EXPECT_EQ(there, std::vector<std::uint8_t>(bytes, 0));
  std::mt19937 random(6);
  std::generate(there.begin(), there.end(), [&] { return static_cast<std::uint8_t>(random()); });
  queue.write(buffer.get(), 0, there.data(), bytes);
  std::vector<std::uint8_t> back(bytes);
  queue.read(buffer.get(), 0, back.data(), bytes);
  EXPECT_EQ(back, there);
  EXPECT_EQ(queue.wait(), CL_SUCCESS);
}

// Two of each kind of layer run, every kernel of a pass runs, and later passes keep their bits.
TEST_F(GpuMemory, Rehearsal_WhenLayersAreAlike_SkipsRepeatedOnes) {
  auto demo = gguf::File::open(HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf");
  ASSERT_TRUE(demo.has_value()) << demo.error().what;
  const FamilyModel models[] = {family_of(std::move(demo).value(), 20),
                                make_family("gemma2", 0, 20), make_family("mixtral", 0, 20)};
  for (const FamilyModel& m : models) {
    watch() = {};
    auto executor = load(m);
    ASSERT_TRUE(executor.has_value()) << executor.error().what;
    const std::vector<float> expected = run_on(**executor, m, options());
    const std::int32_t page = 0;
    const backend::Batch batch{{{m.tokens.data(), 20, 0, &page, Wants::logits(1)}}};
    watch().launches = 0, watch().kernels.clear();
    ASSERT_TRUE((*executor)->forward(batch).has_value());
    const std::int64_t all = std::exchange(watch().launches, 0);
    const auto kernels = std::exchange(watch().kernels, {});
    ASSERT_TRUE((*executor)->rehearse(batch).has_value());
    EXPECT_EQ(watch().kernels, kernels);
    if (&m == models) {
      EXPECT_LT(watch().launches, all);
    }
    EXPECT_EQ(run_on(**executor, m, options()), expected);
  }
}

TEST_F(GpuMemory, DeviceMemory_AfterThousandMixedAllocations_IsAllFree) {
  auto selected = opencl::select_devices(gpu::watched_api(), gpu::device());
  ASSERT_TRUE(selected.has_value());
  opencl::Device* device = &selected->at(0);
  device->memory = 64 << 20;
  device->max_alloc = 32 << 20;
  const auto device_context = opencl::DeviceContext::open(*device).value();
  const auto queue = device_context->make_queue().value();
  opencl::DeviceMemory& memory = device_context->memory();
  std::mt19937 random(5);
  {
    std::vector<opencl::Buffer> held(8);
    for (int i = 0; i < 1000; ++i) {
      const std::uint64_t bytes = 1 + (random() % (1u << (10 + random() % 13)));
      auto taken = memory.take(queue.get(), bytes, "test");
      ASSERT_TRUE(taken.has_value()) << taken.error().what;
      held[random() % held.size()] = std::move(taken).value();
    }
    EXPECT_EQ(memory.use().taken, 1000u);
    EXPECT_LE(memory.use().buffers, 8u);
    EXPECT_EQ(memory.free_bytes() + memory.use().bytes, device->memory);
  }
  EXPECT_EQ(memory.use().buffers, 0u);
  EXPECT_GT(memory.use().peak_bytes, 1u << 20);
  EXPECT_EQ(memory.largest_buffer(), device->max_alloc);
  EXPECT_TRUE(memory.take(queue.get(), memory.largest_buffer(), "test").has_value());
  EXPECT_EQ(memory.take(queue.get(), 33 << 20, "test").error().code, Errc::kMemoryExhausted);
}

}  // namespace
}  // namespace holdfast::memory_test
