#pragma once
// The base of the operations, one class a kind: run(op, worker) is called by every worker with the
// same operation, and the classes share out its rows or work items. Nothing here is virtual.

#include <cstdint>

#include "worker/backend/cpu/forward_context.h"

namespace holdfast::cpu {

/// References to what every operation reads, and norms of a row.
class Operation {
 public:
  explicit Operation(ForwardContext& context)
      : context_(context),
        kernels_(context.kernels),
        shape_(context.shape),
        buffers_(context.buffers),
        batch_(context.batch),
        pool_(context.pool) {}

 protected:
  /// Returns a worker's share of the batch's rows.
  Share rows_of_worker(int worker) const { return share_of(batch_.rows(), worker, pool_.size()); }
  const WorkerScratch& scratch_of(int worker) const {
    return buffers_.workers[static_cast<std::size_t>(worker)];
  }
  float norm_eps() const { return static_cast<float>(shape_.norm_eps); }
  void norm_row(const PackedOp& op, const float* x, float* out) const;
  void norm_inner(const PackedOp& op, const float* x, float* out) const;
  /// Clears the floats of rows after the first `n`, up to the end of a product's last block of k: a
  /// wider layer's numbers or encoded rows may lie there.
  static void clear_ends(const FloatRows& rows, std::int64_t first, std::int64_t count,
                         std::int64_t n);

  ForwardContext& context_;
  const Kernels& kernels_;
  const plan::ModelShape& shape_;
  Buffers& buffers_;
  StepBatch& batch_;
  ThreadPool& pool_;
};

/// Returns the bytes of `n` floats.
constexpr std::size_t float_bytes(std::int64_t n) {
  return static_cast<std::size_t>(n) * sizeof(float);
}

}  // namespace holdfast::cpu
