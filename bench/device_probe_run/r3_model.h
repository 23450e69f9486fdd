#pragma once
// The definition r3-f16 of a product on the host: what any kernel of it gives, to the bit.
//
// A weight is half(fma(code, a, b)) with a = half(d * scale) and b = half(-dmin * minimum). Rows
// are halves. k is cut into segments of 512, each one chain of steps of 16 k from zero as the
// matrix unit makes them (mma_model.h); the segments' sums are added as floats in rising order.

#include <vector>

#include "bench/device_probe_run/batch.h"
#include "bench/device_probe_run/mma_model.h"
#include "bench/device_probe_run/weights.h"

namespace holdfast::bench::probe {

inline constexpr std::size_t kSegmentK = 512;

/// The halves of a panel's weights: [16][k].
std::vector<Half> r3_weights(const Panel& panel);

/// The product of k weights and k values of a row; k is a multiple of 512.
float r3_product(const Half* weights, const Half* row, std::size_t k);

/// The products of checked_panels() and the batch's first rows: [panel][row][16].
struct R3Expected {
  R3Expected(const Shape& shape, const std::vector<Panel>& panels, const Batch& batch);

  std::vector<std::size_t> panels;
  std::size_t rows = 0;
  std::vector<float> values;

  /// Outputs of the first rows of y, [rows][shape.rows], that have other bits; `of` says of how
  /// many.
  std::size_t differing(const std::vector<float>& y, const Shape& shape, std::size_t y_rows,
                        std::size_t& of) const;
};

}  // namespace holdfast::bench::probe
