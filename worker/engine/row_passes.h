#pragma once
// Passes over a row of logits. A vocabulary has up to 260,000 tokens and every sampled token takes
// a few passes on one thread, while the others wait. Pure; the same bits on every processor.

#include <cstdint>

namespace holdfast::engine {

/// False if any of n values is NaN or infinite.
bool all_finite(const float* x, std::int64_t n);
/// The greatest of n values; minus infinity of none.
float max_of(const float* x, std::int32_t n);
/// The sum in 16 partial ones, which are joined in order.
double sum_of(const float* x, std::int32_t n);
/// Place of `id` in the order by value, then by id, from 1.
std::int32_t rank_of(const float* x, std::int32_t n, std::int32_t id);
/// The first i >= from with x[i] > least, else n.
std::int32_t next_above(const float* x, std::int32_t from, std::int32_t n, float least);

}  // namespace holdfast::engine
