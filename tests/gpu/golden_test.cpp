// Goal: a kernel's bits change only together with kKernelsRev (executor.h), to which running
// requests are bound.
// Method: hashes of the logits of tiny models; together they run every kernel. They hold on devices
// that round divisions correctly, where every operation is IEEE's. If this fails because a change
// of bits is intended: raise kKernelsRev and write the new numbers here, in one commit.

#include <gtest/gtest.h>

#include <cstring>

#include "tests/gpu/test_device.h"
#include "worker/backend/opencl/device/devices.h"
#include "worker/backend/opencl/single/executor.h"

namespace holdfast::golden_test {
namespace {

std::uint64_t hash_of(const std::vector<float>& values) {
  std::uint64_t h = 1469598103934665603u;
  for (const float f : values) {
    std::uint32_t u = 0;
    std::memcpy(&u, &f, 4);
    h = (h ^ u) * 1099511628211u;
  }
  return h;
}

struct Golden {
  const char* architecture;
  const char* type;
  const char* kv;
  const char* tier;
  std::uint64_t hash;
};

TEST(GpuGolden, LogitHashes_AtThisKernelsRevision_AreUnchanged) {
  HOLDFAST_NEEDS_DEVICE();
  const auto device =
      opencl::select_devices(*opencl::system_api().value(), gpu::device()).value()[0];
  if (!device.rounds_divisions) GTEST_SKIP() << device.name << " rounds divisions as it likes";
  ASSERT_STREQ(opencl::kKernelsRev, "r2");
  const Golden all[] = {
      {"llama", "q8_0", "f16", "t0", 12618430382943173215u},
      {"gemma2", "q4_0", "bf16", "t0", 3993249546758725616u},
      {"qwen2moe", "q8_0", "int8", "t0", 11790345360765969653u},
      {"gpt2", "f16", "f32", "t0", 1995770011434331793u},
      {"olmo2", "bf16", "f16", "t0", 7490287905697027112u},
      {"bert", "q5_1", "f32", "t0", 2642573426232985048u},
      {"llama", "q8_0", "f16", "t2", 2717328090193529588u},
      {"qwen2moe", "q8_0", "int8", "t2", 13165604148824382834u},
      {"gemma2", "q4_k_m", "f32", "t2", 9955992024354194038u},
      {"llama", "q8_0", "fp8", "t0", 6433834254402862740u},
  };
  for (const Golden& golden : all) {
    const FamilyModel m = make_family(golden.architecture, 0, 70, golden.type);
    RunOptions options = gpu::on_device();
    options.kv = golden.kv;
    options.kernels = golden.tier;
    EXPECT_EQ(hash_of(run_family(m, options)), golden.hash)
        << golden.architecture << " " << golden.tier;
  }
}

}  // namespace
}  // namespace holdfast::golden_test
