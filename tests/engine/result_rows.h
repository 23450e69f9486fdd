#pragma once
// Whole rows of a step's results, one after the other, for tests that compare many at once.

#include <vector>

#include "worker/backend/api/step_result.h"

namespace holdfast {

/// Copies rows [first, first + n) of logits, of `vocab` each.
inline std::vector<float> copy_rows(const backend::StepResult& result, std::int32_t first,
                                    std::int32_t n, std::size_t vocab) {
  std::vector<float> out;
  for (std::int32_t row = first; row < first + n; ++row) {
    const float* at = result.logits(row).at;
    out.insert(out.end(), at, at + vocab);
  }
  return out;
}

/// Copies all of its rows.
inline std::vector<float> copy_rows(const backend::StepResult& result, std::size_t vocab) {
  return copy_rows(result, 0, result.logit_rows(), vocab);
}

}  // namespace holdfast
