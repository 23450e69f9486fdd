#pragma once
// What the tests of devices share: which device they run on, where built kernels are kept, and the
// conformance models.

#include <string>
#include <vector>

#include "tests/engine/family_runs.h"

namespace holdfast::gpu {

/// HOLDFAST_TEST_DEVICE, else "opencl:0". Empty: there is none, or this build has no OpenCL; then
/// why_none() says so, for GTEST_SKIP.
std::string device();
std::string why_none();

/// A folder of this build tree, so that only its first run builds kernels.
std::string cache_dir();

/// Options for a run on device(), with the cache, and with the kernels that every device can run
/// (bytes_test.cpp names the others): a GPU would take better ones.
RunOptions on_device();
/// The same for kernels that few runs need: they are left to the driver's own cache (PoCL's is put
/// into the build tree too), as PoCL compiles a second time for a binary.
RunOptions on_device_uncached();

struct ConformanceCase {
  FamilyModel model;  // with the case's tokens
  std::vector<std::int64_t> positions;
  std::vector<std::vector<double>> logits;
};
/// Names of all cases; empty where the data is not.
std::vector<std::string> conformance_names();
ConformanceCase conformance_case(const std::string& name);

/// Relative error (2-norm over all listed values) of the logits of all tokens.
double relative_error(const std::vector<float>& all, const ConformanceCase& c);

}  // namespace holdfast::gpu

/// Leaves the test with the reason where there is no device.
#define HF_NEEDS_DEVICE() \
  if (holdfast::gpu::device().empty()) GTEST_SKIP() << holdfast::gpu::why_none()
