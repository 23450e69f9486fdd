#pragma once
// Passes over a row of logits, of up to 260,000 tokens, on one thread while the others wait. Pure;
// the same bits on every processor.

#include <cstdint>

namespace holdfast::engine {

/// False if any of n values is NaN or infinite.
bool all_finite(const float* x, std::int64_t n);
/// The greatest of n values; minus infinity of none.
float max_of(const float* x, std::int32_t n);
/// maxima[b] = the greatest of block b of backend::LogitRow.
void block_maxima(const float* x, std::int32_t n, float* maxima);
/// A sum in 16 partial ones, which are joined in order, taken part by part: parts but the last are
/// of multiples of 16 values, which changes no bit.
class Sum {
 public:
  /// Gives the sum of the part alone, added up in another order.
  double add(const float* x, std::int32_t n);
  double total() const;

 private:
  double lanes_[16] = {};
};
/// Place of `id` in the order by value, then by id, from 1.
std::int32_t rank_of(const float* x, std::int32_t n, std::int32_t id);

}  // namespace holdfast::engine
