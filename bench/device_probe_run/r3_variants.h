#pragma once
// Shapes of kernels of r3-f16 (r3_model.h): how work is split, and what lies in local memory.

#include "bench/device_probe_run/variants.h"

namespace holdfast::bench::probe {

struct R3Variant {
  enum class Kind {
    kPanels,    // r3_panels.cl
    kSegments,  // r3_segments.cl
    kTile,      // r3_tile.cl
    kWgmma,     // r3_wgmma.cl
    kTile16     // tile16.cl, the earlier one
  };
  const char* name;
  Kind kind;
  std::size_t rows;
  std::size_t warps = 0, stages = 0;  // of a group; blocks of a warp's ring
  std::size_t panels = 1;             // that a warp multiplies at once
  std::size_t x_slots = 0;            // segments (tile: 64 k) of x in local memory; 0: all
  std::size_t spans = 1;              // parts of k that groups share out among them
  std::size_t groups_each = 1;        // groups of a compute unit
  bool ring_only = false;             // without arithmetic: the result is no product

  std::size_t columns() const { return (rows + 7) / 8; }
  /// Work-groups that share out the panels.
  std::size_t groups(std::size_t units) const { return units * groups_each / spans; }
  /// Bytes of local memory of a group.
  std::size_t local_bytes(const Shape& shape, std::size_t units) const;
  /// True where the split suits the shape, and local memory is enough.
  bool fits(const Shape& shape, std::size_t units) const;
};

/// Builds the kernel and sets its arguments. `x`: what r3_x() gives. The card keeps a failure.
Prepared prepare_r3(Run& run, const R3Variant& variant, const Shape& shape,
                    const opencl::MemoryHandle& x, const opencl::MemoryHandle& weights);

/// Orders of the rows' halves.
enum class R3Rows { kByRow, kFragments, kCores };
R3Rows r3_rows(const R3Variant& variant);
std::vector<Half> r3_x(const R3Variant& variant, const Batch& batch);

}  // namespace holdfast::bench::probe
