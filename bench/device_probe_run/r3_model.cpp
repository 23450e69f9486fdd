#include "bench/device_probe_run/r3_model.h"

#include <algorithm>
#include <cstring>

#include "bench/device_probe_run/processors.h"

namespace holdfast::bench::probe {

std::vector<Half> r3_weights(const Panel& panel) {
  std::vector<Half> out(panel.codes.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t group = i / kGroupK, block = i / kBlockK;
    const double scale = float_of(panel.d[block]), least = float_of(panel.dmin[block]);
    const double a = float_of(half_of(scale * panel.scales[group]));
    const double b = float_of(half_of(-least * panel.minima[group]));
    out[i] = half_of(a * panel.codes[i] + b);
  }
  return out;
}

float r3_product(const Half* weights, const Half* row, std::size_t k) {
  constexpr MmaModel kUnit{16, 25, false, true};
  float total = 0;
  for (std::size_t segment = 0; segment < k; segment += kSegmentK) {
    float sum = 0;
    for (std::size_t at = segment; at < segment + kSegmentK; at += 16) {
      sum = mma_step(kUnit, weights + at, row + at, sum);
    }
    total += sum;
  }
  return total;
}

R3Expected::R3Expected(const Shape& shape, const std::vector<Panel>& all, const Batch& batch)
    : panels(checked_panels(shape)),
      rows(batch.rows),
      values(panels.size() * batch.rows * kPanelRows) {
  std::vector<Half> x(batch.values.size());
  std::transform(batch.values.begin(), batch.values.end(), x.begin(),
                 [](float v) { return half_of(v); });
  std::vector<std::vector<Half>> weights(panels.size());
  on_all_processors(panels.size(),
                    [&](std::size_t i) { weights[i] = r3_weights(all[panels[i] % all.size()]); });
  on_all_processors(values.size(), [&](std::size_t i) {
    const std::size_t row = i / kPanelRows % rows, column = i % kPanelRows;
    values[i] =
        r3_product(&weights[i / kPanelRows / rows][column * shape.k], &x[row * shape.k], shape.k);
  });
}

std::size_t R3Expected::differing(const std::vector<float>& y, const Shape& shape,
                                  std::size_t y_rows, std::size_t& of) const {
  std::size_t count = 0;
  of = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t panel = panels[i / kPanelRows / rows], row = i / kPanelRows % rows;
    if (row >= y_rows) continue;
    const float found = y[row * shape.rows + panel * kPanelRows + i % kPanelRows];
    count += std::memcmp(&found, &values[i], sizeof found) != 0;
    ++of;
  }
  return count;
}

}  // namespace holdfast::bench::probe
