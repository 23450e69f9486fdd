#pragma once
// Pooling: makes a text's vector of the last layer's rows.

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/backend/api/batch.h"
#include "worker/backend/api/step_result.h"
#include "worker/engine/engine.h"

namespace holdfast::engine {

/// Takes the rows that its pooling needs, in the order of their positions, and pools them in
/// float64, so that the result does not depend on the chunks in which they come.
class Pooler {
 public:
  Pooler(plan::Pooling pooling, bool normalize, std::int64_t width);
  /// The rows that it needs of a segment of `n` tokens at `start`; `last`: the segment is the
  /// text's last one.
  backend::Wants wants(std::int64_t start, std::int32_t n, bool last) const;
  /// Takes the requested rows of a segment whose first token is the batch's `first`.
  void take(const backend::StepResult& result, const backend::Segment& segment, std::int32_t first);
  /// Writes `out.embedding` and `out.vectors`; at least one row was taken (CHECKed).
  void finish(Produced& out) const;

 private:
  void restart();  // at the text's first segment, also after a preemption
  void take_row(const float* row);
  void append(const double* sum, double divisor, std::vector<float>& out) const;

  plan::Pooling pooling_;
  bool normalize_;
  std::int64_t width_;
  std::int64_t rows_ = 0;
  std::vector<double> values_;  // [width], or [rows][width] without pooling
};

}  // namespace holdfast::engine
