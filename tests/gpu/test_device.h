#pragma once
// Common parts of the device tests: the device they run on, the cache of built kernels, and the
// conformance models.

#include <string>
#include <vector>

#include "tests/engine/family_runs.h"

namespace holdfast::gpu {

/// HOLDFAST_TEST_DEVICE, else "opencl:0". Empty: there is none, or this build has no OpenCL; then
/// why_none() gives the reason, for GTEST_SKIP.
std::string device();
std::string why_none();

/// A folder in the build tree, so that only its first run builds kernels.
std::string cache_dir();

/// Options for a run on device() with the cache and the kernels that every device can run
/// (bytes_test.cpp names the others): by default a GPU would take better ones.
RunOptions on_device();
/// The same for kernels that few runs need: they are left to the driver's own cache (PoCL's is in
/// the build tree too), because PoCL compiles a second time for a binary.
RunOptions on_device_uncached();

/// A small model with the logits that other implementations compute.
struct ConformanceCase {
  FamilyModel model;  // with the case's tokens
  std::vector<std::int64_t> positions;
  std::vector<std::vector<double>> logits;
};
/// Names of all cases; empty where the data is missing.
std::vector<std::string> conformance_names();
ConformanceCase conformance_case(const std::string& name);

/// Relative error (2-norm over all listed values) of the logits of all tokens.
double relative_error(const std::vector<float>& all, const ConformanceCase& c);

}  // namespace holdfast::gpu

/// Skips the test, with the reason, where there is no device.
#define HOLDFAST_NEEDS_DEVICE() \
  if (holdfast::gpu::device().empty()) GTEST_SKIP() << holdfast::gpu::why_none()
