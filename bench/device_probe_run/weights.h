#pragma once
// Weight matrices under test, on the device, and what they give.

#include <string>
#include <vector>

#include "bench/device_probe_run/batch.h"
#include "bench/device_probe_run/q4k.h"
#include "bench/device_probe_run/run.h"

namespace holdfast::bench::probe {

struct Shape {
  std::size_t rows = 0, k = 0;  // of the weights
  std::size_t panels() const { return rows / kPanelRows; }
  std::size_t panel_bytes() const { return k / kBlockK * kBlockBytes; }
  std::size_t bytes() const { return panels() * panel_bytes(); }
};

/// "ROWSxK".
std::string name_of(const Shape& shape);

/// The distinct panels of a matrix, which repeats them.
std::vector<Panel> make_panels(const Shape& shape);

/// A buffer with the panels in turn, of at least `bytes` bytes.
opencl::MemoryHandle make_weights(Card& card, const std::vector<Panel>& panels, Order order,
                                  std::size_t bytes);

/// Panels of a matrix that results are checked at: spread over it, at most 12.
std::vector<std::size_t> checked_panels(const Shape& shape);

/// The error of checked outputs over their root mean square. y: [batch.rows][shape.rows].
double error_of(const std::vector<float>& y, const Shape& shape, const std::vector<Panel>& panels,
                const Batch& batch);

}  // namespace holdfast::bench::probe
