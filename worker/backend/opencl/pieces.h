#pragma once
// A batch in pieces, so that devices which have a model's layers one behind the other work at the
// same time, each on a piece.

#include <cstdint>
#include <vector>

#include "worker/backend/backend.h"

namespace holdfast::opencl {

struct BatchPiece {
  std::vector<backend::Segment> segments;
  std::int32_t rows = 0;         // tokens
  std::int32_t first_logit = 0;  // its first row of the batch's logits
};

/// Not thread-safe. Nothing is allocated after construction.
class Pieces {
 public:
  /// Of at least this many tokens: fewer would read the weights without using them up.
  static constexpr std::int32_t kRows = 64;

  /// `most`: of one batch.
  Pieces(const backend::Limits& limits, std::size_t most);

  /// The batch in order, in pieces of nearly equal size with at least `rows` tokens each; a single
  /// one where the batch is small, or its tokens' rows are wanted afterwards (hidden, more). Valid
  /// until the next call.
  const std::vector<BatchPiece>& cut(const std::vector<backend::Segment>& segments,
                                     std::int32_t rows);

 private:
  void add(const backend::Segment& segment, std::int32_t first, std::int32_t n);

  const std::size_t most_;
  std::vector<BatchPiece> spare_;  // those that the last batch had no use for
  std::vector<BatchPiece> pieces_;
};

}  // namespace holdfast::opencl
