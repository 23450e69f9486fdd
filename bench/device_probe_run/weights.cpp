#include "bench/device_probe_run/weights.h"

#include <algorithm>
#include <cmath>

namespace holdfast::bench::probe {
namespace {

constexpr std::size_t kDistinctPanels = 64;
constexpr std::size_t kCheckedPanels = 12;
constexpr std::size_t kCheckedRows = 16;  // of the batch

}  // namespace

std::vector<Panel> make_panels(const Shape& shape) {
  std::vector<Panel> panels;
  const std::size_t n = std::min(kDistinctPanels, shape.panels());
  for (std::size_t i = 0; i < n; ++i) panels.emplace_back(shape.k, 1000 + i);
  return panels;
}

opencl::MemoryHandle make_weights(Card& card, const std::vector<Panel>& panels, Order order,
                                  std::size_t bytes) {
  std::vector<std::uint8_t> pattern;
  for (const Panel& panel : panels) {
    const std::vector<std::uint8_t> one = panel.bytes(order);
    pattern.insert(pattern.end(), one.begin(), one.end());
  }
  opencl::MemoryHandle memory = card.buffer(std::max(bytes, pattern.size()));
  card.write(memory, 0, pattern.data(), pattern.size());
  for (std::size_t have = pattern.size(); have < bytes;) {
    const std::size_t more = std::min(have, bytes - have);
    card.copy(memory, 0, memory, have, more);
    have += more;
  }
  card.finish();
  return memory;
}

std::vector<std::size_t> checked_panels(const Shape& shape) {
  const std::size_t all = shape.panels(), checked = std::min(all, kCheckedPanels);
  std::vector<std::size_t> panels;
  for (std::size_t i = 0; i < checked; ++i) {
    panels.push_back(checked == 1 ? 0 : i * (all - 1) / (checked - 1));
  }
  return panels;
}

double error_of(const std::vector<float>& y, const Shape& shape, const std::vector<Panel>& panels,
                const Batch& batch) {
  double errors = 0, squares = 0;
  const std::size_t rows = std::min(batch.rows, kCheckedRows);
  std::vector<double> weights(shape.k);
  for (const std::size_t at : checked_panels(shape)) {
    const Panel& panel = panels[at % panels.size()];
    for (std::size_t column = 0; column < kPanelRows; ++column) {
      for (std::size_t k = 0; k < shape.k; ++k) weights[k] = panel.weight(column, k);
      for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t row = rows == 1 ? 0 : r * (batch.rows - 1) / (rows - 1);
        double sum = 0;
        for (std::size_t k = 0; k < shape.k; ++k)
          sum += weights[k] * batch.values[row * shape.k + k];
        const double off = y[row * shape.rows + at * kPanelRows + column] - sum;
        errors += off * off;
        squares += sum * sum;
      }
    }
  }
  return std::sqrt(errors / squares);
}

std::string name_of(const Shape& shape) {
  return std::to_string(shape.rows) + "x" + std::to_string(shape.k);
}

}  // namespace holdfast::bench::probe
