#pragma once
// The kernels that multiply rows with Q4_K weights: the backend's own and those under test.

#include <string>
#include <vector>

#include "bench/device_probe_run/batch.h"
#include "bench/device_probe_run/run.h"
#include "bench/device_probe_run/weights.h"

namespace holdfast::bench::probe {

/// A kernel with its number of batch rows.
struct Variant {
  enum class Kind { kPresent, kAhead, kRing16, kRing8, kTile16 };
  const char* name;
  Kind kind;
  std::size_t rows;
  long parameter = 0;    // DEEP or COLUMNS
  bool of_base = false;  // kPresent: of the text of --base

  Order order() const;
  bool needs_ptx() const {
    return kind == Kind::kRing16 || kind == Kind::kRing8 || kind == Kind::kTile16;
  }
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
