#pragma once
// Weights on the device: panels as the CPU packs them (worker/backend/cpu/layout.h), in as few
// buffers as the driver's bound on one buffer allows, and all vectors as floats in one.

#include <cstdint>
#include <functional>
#include <vector>

#include "worker/backend/cpu/layout.h"
#include "worker/backend/opencl/staging.h"
#include "worker/backend/opencl/station.h"
#include "worker/model/program.h"

namespace holdfast::opencl {

/// Panels of a matrix that lie in one buffer.
struct Piece {
  std::size_t slab = 0;
  std::uint64_t at = 0;  // byte in it
  std::int64_t first_panel = 0;
  std::int64_t panels = 0;
};

struct DeviceMatrix {
  cpu::Format format = cpu::Format::kF32;
  std::int64_t panels = 0;
  std::int64_t panels_each = 0;  // of one of its matrices (experts), else all
  std::int64_t panel_bytes = 0;
  std::int64_t spans = 0;  // of 32 k
  std::vector<Piece> pieces;
};

/// First everything is placed, without memory; then it is taken and filled.
class Weights {
 public:
  /// `max_alloc`: bytes of one buffer at most.
  explicit Weights(std::uint64_t max_alloc) : slab_most_(max_alloc / 256 * 256) {}

  /// The rows of `refs`, one below the other, as one matrix; types and columns are equal (CHECKed).
  /// Rows come in groups that are padded to whole panels. kUnsupported, kFileInvalid as the CPU;
  /// kMemoryExhausted: an expert is larger than a buffer may be.
  Result<DeviceMatrix> add_matrix(const std::vector<model::WeightRef>& refs,
                                  std::int64_t group_rows);
  /// The vectors one behind the other, groups zero-padded to 16: the place of the first float. -1
  /// for a vector that is absent. kFileInvalid: NaN or infinity, named.
  Result<std::int32_t> add_vector(const std::vector<model::WeightRef>& refs, std::int64_t group);

  std::uint64_t bytes() const;
  /// Takes the memory, packs and uploads. Errors as backend::load.
  Result<void> upload(Station& station, Queue& queue, int threads,
                      const std::function<void(double)>& progress);

  cl_mem slab(const Piece& piece) const { return slabs_[piece.slab].get(); }
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

  Result<void> place(DeviceMatrix& matrix);
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
