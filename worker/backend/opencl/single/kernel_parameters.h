#pragma once
// The parameter blocks of the kernels, by the definitions that these have.

#include <cstdint>

namespace holdfast::opencl {

using ulong = std::uint64_t;
#include "worker/backend/opencl/kernels/parameters.cl"

// No gaps, whose bytes would differ from launch to launch.
static_assert(sizeof(ProductParameters) == 4 * sizeof(ulong) + 24 * sizeof(int));
static_assert(sizeof(TileParameters) == 2 * sizeof(ulong) + 16 * sizeof(int));
static_assert(sizeof(DenseParameters) == 14 * sizeof(int));
static_assert(sizeof(NormParameters) == 13 * sizeof(int));
static_assert(sizeof(HeadParameters) == sizeof(ulong) + 6 * sizeof(int));
static_assert(sizeof(FinishParameters) == 2 * sizeof(ulong) + 6 * sizeof(int));
static_assert(sizeof(AttentionParameters) == 9 * sizeof(int));
static_assert(sizeof(DeltaParameters) == 2 * sizeof(ulong) + 14 * sizeof(int));

}  // namespace holdfast::opencl
