#pragma once
// Weights on the device: panels as the CPU packs them (worker/weights/layout.h), in as few
// buffers (slabs) as the driver's bound on one buffer allows, and all vectors as floats in one.

#include <cstdint>
#include <functional>
#include <vector>

#include "worker/backend/opencl/device/device_context.h"
#include "worker/backend/opencl/device/staging.h"
#include "worker/model/program.h"
#include "worker/weights/layout.h"

namespace holdfast::opencl {

/// Panels of a matrix that lie in one slab.
struct SlabExtent {
  std::size_t slab = 0;
  std::uint64_t at = 0;  // byte offset in the slab
  std::int64_t first_panel = 0;
  std::int64_t panels = 0;
};

/// A packed matrix on the device, or several of one size (experts).
struct DeviceMatrix {
  cpu::Format format = cpu::Format::kF32;
  std::int64_t panels = 0;
  std::int64_t panels_each = 0;  // panels of one expert's matrix, else all
  std::int64_t panel_bytes = 0;
  std::int64_t spans = 0;  // of 32 k
  std::vector<SlabExtent> extents;
};

/// All weights of a load: first add_*() plans offsets, without memory; then upload() allocates and
/// fills. Not thread-safe.
class Weights {
 public:
  /// `max_alloc`: the most bytes of one buffer.
  explicit Weights(std::uint64_t max_alloc) : slab_most_(max_alloc / 256 * 256) {}

  /// Adds the rows of `refs`, one matrix below the other, as one matrix; types and columns are
  /// equal (CHECKed). Rows come in groups that are padded to whole panels. kUnsupported,
  /// kFileInvalid as the CPU; kMemoryExhausted: an expert is larger than a buffer may be.
  Result<DeviceMatrix> add_matrix(const std::vector<model::WeightRef>& refs,
                                  std::int64_t group_rows);
  /// Adds the vectors one after the other, in groups zero-padded to 16; gives the offset of the
  /// first float, or -1 for an absent vector. kFileInvalid: NaN or infinity; the message names the
  /// tensor.
  Result<std::int32_t> add_vector(const std::vector<model::WeightRef>& refs, std::int64_t group);

  std::uint64_t bytes() const;
  /// Allocates, packs and uploads. Errors as backend::load.
  Result<void> upload(DeviceContext& device_context, Queue& queue, int threads,
                      const std::function<void(double)>& progress);

  cl_mem slab(const SlabExtent& extent) const { return slabs_[extent.slab].get(); }
  cl_mem vectors() const { return vectors_.get(); }

 private:
  struct Job {  // a tensor to pack, into panels [first_panel, …) of a matrix
    model::WeightRef from;
    std::size_t row_bytes = 0;
    std::int64_t group_rows = 0;
    std::int64_t first_panel = 0;
    std::size_t matrix = 0;
  };
  class Packer;

  Result<void> assign_slabs(DeviceMatrix& matrix);
  std::uint64_t part_bytes_most() const;

  const std::uint64_t slab_most_;
  std::vector<std::uint64_t> slab_bytes_;
  std::vector<float> vector_values_;
  std::vector<DeviceMatrix> matrices_;
  std::vector<Job> jobs_;
  std::vector<Buffer> slabs_;
  Buffer vectors_;
};

}  // namespace holdfast::opencl
