#pragma once
// From the last layer's rows of a text to its vector.

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/engine/engine.h"

namespace holdfast::engine {

/// Takes the rows of positions 0, 1, … in order and pools them in float64, so that the result does
/// not depend on the chunks in which they come.
class Pooler {
 public:
  Pooler(plan::Pooling pooling, bool normalize, std::int64_t width);
  /// The sequence begins again: it was preempted.
  void restart();
  void take(const float* row);
  /// Into `out.embedding` and `out.vectors`; at least one row was taken.
  void finish(Produced& out) const;

 private:
  void append(const double* sum, double divisor, std::vector<float>& out) const;

  plan::Pooling pooling_;
  bool normalize_;
  std::int64_t width_;
  std::int64_t rows_ = 0;
  std::vector<double> values_;  // [width], or [rows][width] without pooling
};

}  // namespace holdfast::engine
