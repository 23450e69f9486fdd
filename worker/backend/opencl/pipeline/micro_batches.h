#pragma once
// Divides a batch into micro-batches, so that the devices of a pipeline work at the same time, each
// on a micro-batch.

#include <cstdint>
#include <vector>

#include "worker/backend/api/batch.h"
#include "worker/backend/api/load.h"

namespace holdfast::opencl {

/// A part of a batch that travels through the stages on its own.
struct MicroBatch {
  backend::Batch batch;
  std::int32_t rows = 0;         // tokens
  std::int32_t first_logit = 0;  // its first row among the batch's logits
};

/// Divides batches. Not thread-safe. Nothing is allocated after construction.
class MicroBatches {
 public:
  /// Least tokens of a micro-batch: fewer would not amortize reading the weights.
  static constexpr std::int32_t kRows = 64;

  /// `most`: micro-batches of one batch.
  MicroBatches(const backend::Limits& limits, std::size_t most);

  /// Cuts the batch, in order, into micro-batches of nearly equal size with at least `rows` tokens
  /// each; a single one where the batch is small, or where rows of its tokens are requested
  /// afterwards (Wants: hidden, deferred_logits). Valid until the next call.
  const std::vector<MicroBatch>& cut(const backend::Batch& batch, std::int32_t rows);

 private:
  void clear();
  void begin(std::int32_t first_logit);

  const std::size_t most_;
  std::vector<MicroBatch> spare_;  // micro-batches that the last batch did not use
  std::vector<MicroBatch> micro_batches_;
};

}  // namespace holdfast::opencl
