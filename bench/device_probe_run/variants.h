#pragma once
// The backend's kernels that multiply rows with packed Q4_K weights, and a second way of one row
// (ahead.cl) that has the same bits.

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

/// A variant that is ready to run; argument kWeightsAt is where the matrix begins in its buffer.
struct Prepared {
  static constexpr cl_uint kWeightsAt = 1;
  opencl::KernelHandle kernel;
  Grid grid;
  opencl::MemoryHandle y;  // [rows][shape.rows] floats
  std::vector<opencl::MemoryHandle> held;
};

/// Builds the kernel and sets its arguments. The card keeps a failure.
Prepared prepare(Run& run, const Variant& variant, const Shape& shape, const Batch& batch,
                 const opencl::MemoryHandle& weights);

}  // namespace holdfast::bench::probe
