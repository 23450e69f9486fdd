#pragma once
// A device with a queue on which CLBlast multiplies dense matrices, for tests.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/test_device.h"
#include "worker/backend/opencl/clblast/dense_products.h"
#include "worker/backend/opencl/device/device_context.h"
#include "worker/backend/opencl/device/queue.h"

namespace holdfast::gpu {

/// The reason why CLBlast cannot be tested here; empty: it can.
inline std::string why_no_clblast() {
  if (device().empty()) return why_none();
  const auto version = opencl::clblast_version();
  return version.has_value() ? "" : version.error().what;
}

/// An open device, an in-order queue and the products on it. CHECKs that all can be had.
struct DenseDevice {
  DenseDevice()
      : context(opencl::DeviceContext::open(
                    opencl::select_devices(*opencl::system_api().value(), device()).value()[0])
                    .value()),
        queue(*context->device().api, context->make_queue().value(), 0),
        products(opencl::DenseProducts::open(queue.get()).value()) {}

  /// A buffer with these floats.
  opencl::Buffer buffer_of(const std::vector<float>& values) {
    const std::uint64_t bytes = values.size() * sizeof(float);
    opencl::Buffer buffer = context->memory().take(queue.get(), bytes, "a test").value();
    queue.write(buffer.get(), 0, values.data(), bytes);
    return buffer;
  }
  /// The first n floats of a buffer, which may be longer than it was requested, after all work
  /// before.
  std::vector<float> floats_of(const opencl::Buffer& buffer, std::size_t n) {
    std::vector<float> out(n);
    queue.read(buffer.get(), 0, out.data(), n * sizeof(float));
    EXPECT_EQ(queue.wait(), CL_SUCCESS);
    return out;
  }

  std::shared_ptr<opencl::DeviceContext> context;  // first: the others live on it
  opencl::Queue queue;
  opencl::DenseProducts products;
};

/// The most by which a sum of `terms` float32 products may differ from the exact one, `size` being
/// the sum of their magnitudes: errors of the additions have random signs, so they grow as the root
/// of their number; 2^-24 is one of them.
inline double tolerance(std::int64_t terms, double size) {
  constexpr double kHalfUlp = 0x1p-24;
  return 2 * std::sqrt(static_cast<double>(terms)) * kHalfUlp * size + 1e-30;
}

}  // namespace holdfast::gpu

/// Skips the test, with the reason, where there is no device or no CLBlast.
#define HOLDFAST_NEEDS_CLBLAST() \
  if (!holdfast::gpu::why_no_clblast().empty()) GTEST_SKIP() << holdfast::gpu::why_no_clblast()
