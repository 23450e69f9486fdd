#pragma once
// Rows of activations, in the forms that the kernels under test read.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/device_probe_run/half.h"

namespace holdfast::bench::probe {

/// Normal values, [rows][k]; rows are a multiple of 8 in the forms of fragments.
struct Batch {
  Batch(std::size_t rows, std::size_t k);

  std::size_t rows = 0, k = 0;
  std::vector<float> values;

  /// int8_rows.cl: 16 words for 16 values.
  std::vector<std::uint32_t> int8_rows() const;
  /// r3_block.cl: [row][k64][t][16].
  std::vector<Half> half_rows() const;
  /// tile16.cl: [eight rows][k32][lane][8].
  std::vector<Half> half_tiles() const;
  /// r3_wgmma.cl: [eight rows][k16][2][8 rows][8].
  std::vector<Half> half_cores() const;
};

}  // namespace holdfast::bench::probe
