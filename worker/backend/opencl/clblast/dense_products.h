#pragma once
// Products of dense float32 matrices on a device, by CLBlast. No bits are promised: CLBlast selects
// kernels and the order of their sums by the sizes of a product. Calibration and training, tests of
// our own kernels, and embeddings in batches of one fixed shape may use it; generation may not
// (docs/inside/gpu.md). Where CLBlast's headers are not built in, no_clblast/ answers.

#include <cstdint>
#include <string>

#include "worker/backend/opencl/device/memory.h"

namespace holdfast::opencl {

/// Floats in a buffer as a matrix, row by row. The buffer must outlive the work that uses it.
struct DenseMatrix {
  const Buffer* buffer = nullptr;
  std::int64_t rows = 0, columns = 0;
  std::int64_t stride = 0;  // floats from one row to the next, at least `columns`
  std::int64_t at = 0;      // the first float, counted from the buffer's first
  bool transposed = false;  // an operand stands for its transpose
};

/// Multiplies on one in-order queue. Not thread-safe.
class DenseProducts {
 public:
  /// `queue` must outlive it. kUnsupported: there is no CLBlast, or this build has no headers of
  /// it.
  static Result<DenseProducts> open(cl_command_queue queue);

  /// Enqueues c = a x b and returns. `c` is no operand and overlaps with none. Errors, before
  /// anything is enqueued: kUsage (shapes do not fit, or a matrix is larger than its buffer),
  /// kMemoryExhausted (no memory for a transposed or padded copy), kModelFailed (another status of
  /// CLBlast, which the error names). The first product of a kind compiles kernels, which takes
  /// seconds on a processor.
  Result<void> multiply(const DenseMatrix& a, const DenseMatrix& b, const DenseMatrix& c);
  /// The same, c += a x b.
  Result<void> multiply_add(const DenseMatrix& a, const DenseMatrix& b, const DenseMatrix& c);
  /// Bytes of device memory that such a product takes for copies; 0: it makes none. The matrices
  /// may be without buffers. Errors as multiply().
  Result<std::uint64_t> temporary_bytes(const DenseMatrix& a, const DenseMatrix& b,
                                        const DenseMatrix& c) const;
  /// Gives all later products this memory for their copies, so that they take none; it must be as
  /// large as the largest of them needs and outlive the work.
  void use_temporary(const Buffer& temporary) { temporary_ = temporary.get(); }
  /// The library's version: "1.5.3".
  const std::string& version() const { return version_; }

 private:
  DenseProducts(cl_command_queue queue, std::string version)
      : queue_(queue), version_(std::move(version)) {}
  Result<void> run(const DenseMatrix& a, const DenseMatrix& b, const DenseMatrix& c, float beta);

  cl_command_queue queue_;
  cl_mem temporary_ = nullptr;
  std::string version_;
};

}  // namespace holdfast::opencl
