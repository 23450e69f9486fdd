#pragma once
// The backend's kernels that multiply rows with packed Q4_K weights, and a second way of one row
// (ahead.cl) that has the same bits.

#include <functional>
#include <string>
#include <vector>

#include "bench/device_probe_run/batch.h"
#include "bench/device_probe_run/run.h"
#include "bench/device_probe_run/weights.h"

namespace holdfast::bench::probe {

/// A kernel with its number of batch rows.
struct Variant {
  const char* name;
  std::size_t rows;
  bool of_base = false;  // of the text of --base
  long deep = 0;         // ahead.cl: blocks ahead; 0: the backend's kernel
};

/// A variant that is ready to run.
struct Prepared {
  opencl::KernelHandle kernel;
  /// Sets where the matrix begins in its buffer, in bytes: argument 1 of the probe's own kernels, a
  /// number of the parameter block of the backend's.
  std::function<void(Card& card, const opencl::KernelHandle& kernel, std::uint64_t at)> set_begin =
      [](Card& card, const opencl::KernelHandle& kernel, std::uint64_t at) {
        card.set_at(kernel, 1, at);
      };
  Grid grid;
  opencl::MemoryHandle y;  // [rows][shape.rows] floats
  std::vector<opencl::MemoryHandle> held;
};

/// Builds the kernel and sets its arguments. The card keeps a failure.
Prepared prepare(Run& run, const Variant& variant, const Shape& shape, const Batch& batch,
                 const opencl::MemoryHandle& weights);

}  // namespace holdfast::bench::probe
