#pragma once
// From the last layer's rows of a text to its vector.

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/backend/backend.h"
#include "worker/engine/engine.h"

namespace holdfast::engine {

/// Takes the rows that its way of pooling needs, in the order of their positions, and pools them in
/// float64, so that the result does not depend on the chunks in which they come.
class Pooler {
 public:
  Pooler(plan::Pooling pooling, bool normalize, std::int64_t width);
  /// Says which rows of a segment it needs; `last`: it is the text's last one.
  void want(backend::Segment& segment, bool last) const;
  /// Those rows of a segment whose tokens are the batch's from `first` on.
  void take(const backend::Executor& executor, const backend::Segment& segment, std::int32_t first);
  /// Into `out.embedding` and `out.vectors`; at least one row was taken.
  void finish(Produced& out) const;

 private:
  void restart();  // the text's first segment: again, if it was preempted
  void take_row(const float* row);
  void append(const double* sum, double divisor, std::vector<float>& out) const;

  plan::Pooling pooling_;
  bool normalize_;
  std::int64_t width_;
  std::int64_t rows_ = 0;
  std::vector<double> values_;  // [width], or [rows][width] without pooling
};

}  // namespace holdfast::engine
