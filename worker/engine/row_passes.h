#pragma once
// Passes over a row of logits, of up to 260,000 tokens, on one thread while the others wait. Pure;
// the same bits on every processor.

#include <cstdint>

namespace holdfast::engine {

/// True if none of n values is NaN or infinite.
bool all_finite(const float* x, std::int64_t n);
/// The greatest of n values; minus infinity for none.
float max_of(const float* x, std::int32_t n);
/// maxima[b] = the greatest of block b of backend::LogitRow.
void block_maxima(const float* x, std::int32_t n, float* maxima);
/// A sum of 16 partial sums, which are joined in order. It is taken part by part: all parts but the
/// last have a multiple of 16 values, so that the division changes no bit.
class Sum {
 public:
  /// Adds a part and returns the sum of that part alone, added up in another order.
  double add(const float* x, std::int32_t n);
  double total() const;

 private:
  double lanes_[16] = {};
};
/// Returns the rank of `id` in the order by value, then by id, from 1.
std::int32_t rank_of(const float* x, std::int32_t n, std::int32_t id);

}  // namespace holdfast::engine
