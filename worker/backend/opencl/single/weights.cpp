#include "worker/backend/opencl/single/weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "shared/base/thread_pool.h"
#include "shared/gguf/made.h"
#include "shared/gguf/quants.h"
#include "worker/weights/pack.h"

namespace holdfast::opencl {
namespace {

using cpu::kLanes;
using cpu::round_up;
using model::WeightRef;

constexpr std::int64_t kStagingBytes = 16 << 20;  // a part is packed while another one is uploaded

Error refuse(Errc code, const WeightRef& w, const std::string& cause) {
  return {code, "load opencl: tensor " + w.tensor->name + ": " + cause};
}

/// Bytes of a row, checked against the tensor's size.
Result<std::size_t> checked_row_bytes(const WeightRef& w) {
  const auto row = gguf::row_bytes(w.tensor->type, static_cast<std::uint64_t>(w.cols));
  if (!row) return refuse(Errc::kFileInvalid, w, "row is not a whole number of blocks");
  const std::int64_t end =
      w.matrix_stride > 0 ? (w.matrices - 1) * w.matrix_stride + w.rows / w.matrices : w.rows;
  const auto all = checked_mul(*row, static_cast<std::uint64_t>(w.first_row + end));
  if (!all || w.tensor->data.size() < *all) {
    return refuse(Errc::kFileInvalid, w, "has fewer bytes than its shape needs");
  }
  return static_cast<std::size_t>(*row);
}

const std::uint8_t* row_at(const WeightRef& w, std::size_t row_bytes, std::int64_t row) {
  return reinterpret_cast<const std::uint8_t*>(w.tensor->data.data()) +
         static_cast<std::size_t>(w.first_row + row) * row_bytes;
}

}  // namespace

Result<DeviceMatrix> Weights::add_matrix(const std::vector<WeightRef>& refs,
                                         std::int64_t group_rows) {
  const auto format = cpu::format_of(refs[0].tensor->type);
  if (!format) {
    const auto traits = gguf::type_traits(refs[0].tensor->type);
    return refuse(Errc::kUnsupported, refs[0],
                  "type " + std::string(traits ? traits->name : "?") + " has no kernels");
  }
  DeviceMatrix matrix;
  matrix.format = *format;
  for (const WeightRef& w : refs) {
    CHECK(w.tensor->type == refs[0].tensor->type && w.cols == refs[0].cols);
    HOLDFAST_TRY(const std::size_t row, checked_row_bytes(w));
    if (group_rows <= 0 || w.rows % group_rows != 0) {
      return refuse(Errc::kFileInvalid, w, "rows are not whole heads");
    }
    const auto geometry = cpu::packed_geometry(*format, w.rows, w.cols, group_rows);
    for (std::int64_t i = 0; i < (w.matrix_stride > 0 ? w.matrices : 1); ++i) {
      WeightRef run = w;  // rows that lie together in the file
      if (w.matrix_stride > 0) {
        run.rows = w.rows / w.matrices;
        run.first_row += i * w.matrix_stride;
        run.matrices = 1;
      }
      jobs_.push_back({run, row, group_rows, matrix.panels + i * geometry.panels / w.matrices,
                       matrices_.size()});
    }
    matrix.panels += geometry.panels;
    matrix.panel_bytes = static_cast<std::int64_t>(geometry.panel_bytes);
    matrix.spans = geometry.blocks * cpu::layout_of(*format).block / cpu::kSpan;
  }
  matrix.panels_each = matrix.panels / refs[0].matrices;
  const auto assigned = assign_slabs(matrix);
  if (!assigned) return refuse(assigned.error().code, refs[0], assigned.error().what);
  matrices_.push_back(matrix);
  return matrix;
}

/// Divides the matrix over slabs: a plain one between panels, experts between experts.
Result<void> Weights::assign_slabs(DeviceMatrix& m) {
  const std::int64_t unit = m.panels_each < m.panels ? m.panels_each : 1;
  const auto unit_bytes = static_cast<std::uint64_t>(unit * m.panel_bytes);
  if (unit_bytes > slab_most_) {
    return Error{Errc::kMemoryExhausted, "needs " + std::to_string(unit_bytes) +
                                             " bytes in one piece, a buffer of this "
                                             "device may have " +
                                             std::to_string(slab_most_)};
  }
  for (std::int64_t at = 0; at < m.panels;) {
    if (slab_bytes_.empty() || slab_bytes_.back() + unit_bytes > slab_most_) {
      slab_bytes_.push_back(0);
    }
    const auto fit = static_cast<std::int64_t>((slab_most_ - slab_bytes_.back()) / unit_bytes);
    const std::int64_t panels = std::min(m.panels - at, fit * unit);
    m.extents.push_back({slab_bytes_.size() - 1, slab_bytes_.back(), at, panels});
    slab_bytes_.back() += static_cast<std::uint64_t>(panels * m.panel_bytes);
    at += panels;
  }
  return {};
}

Result<std::int32_t> Weights::add_vector(const std::vector<WeightRef>& refs, std::int64_t group) {
  if (!refs[0].present()) return -1;
  const auto at = static_cast<std::int32_t>(vector_values_.size());
  for (const WeightRef& w : refs) {
    HOLDFAST_TRY(const std::size_t row, checked_row_bytes(w));
    const std::int64_t n = w.rows * w.cols;
    if (group <= 0 || n % group != 0) {
      return refuse(Errc::kFileInvalid, w, "length does not fit the model's shape");
    }
    std::vector<float> plain(static_cast<std::size_t>(n));
    HOLDFAST_TRY(const gguf::Held held, gguf::Held::of(*w.tensor));
    const std::int64_t runs =
        w.matrix_stride > 0 ? w.matrices : 1;  // runs that lie together in the file
    for (std::int64_t i = 0; i < runs; ++i) {
      HOLDFAST_CHECKED(gguf::dequantize_row(w.tensor->type, row_at(w, row, i * w.matrix_stride),
                                            plain.data() + i * (n / runs),
                                            static_cast<std::uint64_t>(n / runs)));
    }
    if (!std::all_of(plain.begin(), plain.end(), [](float v) { return std::isfinite(v); })) {
      return refuse(Errc::kFileInvalid, w, "holds a NaN or infinity");
    }
    for (std::int64_t g = 0; g < n / group; ++g) {
      const auto from = plain.begin() + g * group;
      vector_values_.insert(vector_values_.end(), from, from + group);
      vector_values_.resize(vector_values_.size() +
                            static_cast<std::size_t>(round_up(group, kLanes) - group));
    }
  }
  return at;
}

std::uint64_t Weights::bytes() const {
  std::uint64_t all = vector_values_.size() * sizeof(float);
  for (const std::uint64_t slab : slab_bytes_) all += slab;
  return all;
}

/// Packs one tensor part by part, and uploads each part while the next one is packed, from two
/// pieces of pinned memory in turn; or, where the device is the host, packs to the final address. A
/// part is a number of whole groups, or, of a group that is larger than the staging memory, a
/// number of its panels.
class Weights::Packer {
 public:
  Packer(const Weights& to, Queue& queue, int threads)
      : to_(to), queue_(queue), pool_(std::max(threads, 1)) {}
  ~Packer() { queue_.finish(); }  // before the memory that it reads is freed

  Result<void> take_staging(DeviceContext& device_context) {
    const Device& device = device_context.device();
    for (std::size_t i = 0; device.is_host && i < to_.slabs_.size(); ++i) {
      HOLDFAST_TRY(Mapping slab,
                   Mapping::make(*device.api, queue_.get(), to_.slabs_[i].get(), to_.slab_bytes_[i],
                                 CL_MAP_WRITE_INVALIDATE_REGION, "weights"));
      mapped_.push_back(std::move(slab));
    }
    if (device.is_host) return {};
    for (Staging& staging : staging_) {
      HOLDFAST_TRY(staging,
                   Staging::take(*device_context.device().api, device_context.context(),
                                 queue_.get(), to_.part_bytes_most(), "weights on their way"));
    }
    return {};
  }

  /// `packed` gets the number of bytes that are done.
  Result<void> pack(const Job& job, const std::function<void(std::uint64_t)>& packed) {
    HOLDFAST_TRY(const gguf::Held held, gguf::Held::of(*job.from.tensor));
    const DeviceMatrix& m = to_.matrices_[job.matrix];
    const std::int64_t groups = job.from.rows / job.group_rows;
    const std::int64_t group_panels = round_up(job.group_rows, kLanes) / kLanes;
    const std::int64_t fit = std::max<std::int64_t>(kStagingBytes / m.panel_bytes, 1);
    const std::int64_t groups_at_once = fit / group_panels;
    std::int64_t panel = job.first_panel;
    for (std::int64_t g = 0; g < groups;) {
      const std::int64_t n = std::min(std::max<std::int64_t>(groups_at_once, 1), groups - g);
      const std::int64_t rows_at_once = groups_at_once > 0 ? n * job.group_rows : fit * kLanes;
      const std::int64_t end = (g + n) * job.group_rows;
      for (std::int64_t row = g * job.group_rows; row < end; row += rows_at_once) {
        const std::int64_t rows = std::min(rows_at_once, end - row);
        const std::int64_t each = groups_at_once > 0 ? job.group_rows : rows;
        HOLDFAST_TRY(const std::int64_t panels, pack_part(job, row, rows, each, panel));
        panel += panels;
        packed(static_cast<std::uint64_t>(panels * m.panel_bytes));
      }
      g += n;
    }
    return {};
  }

 private:
  /// Packs rows [row, row + rows) of the tensor into panels from `panel` on; gives their number.
  Result<std::int64_t> pack_part(const Job& job, std::int64_t row, std::int64_t rows,
                                 std::int64_t group_rows, std::int64_t panel) {
    const DeviceMatrix& m = to_.matrices_[job.matrix];
    cpu::PackedMatrix part = cpu::packed_geometry(m.format, rows, job.from.cols, group_rows);
    part.data = pack_destination(m, panel, part);
    std::atomic<std::int64_t> bad{-1};
    pool_.run([&](int worker) {
      const Share share = share_of(part.panels, worker, pool_.size());
      const std::int64_t found =
          cpu::pack_panels(part, job.from.tensor->type, row_at(job.from, job.row_bytes, row),
                           job.row_bytes, share.first, share.last);
      if (found >= 0) bad = found;
    });
    if (bad >= 0) {
      return refuse(Errc::kFileInvalid, job.from,
                    "holds a NaN or infinity in row " + std::to_string(row + bad));
    }
    const bool stays = !mapped_.empty() && part.data != bounce_buffer_.data();
    if (!stays) write(m, panel, part);
    if (mapped_.empty()) done_[turn_] = queue_.done();
    return part.panels;
  }

  /// The address for packing a part that begins at `panel`: in the slab, if one slab holds it all.
  std::uint8_t* pack_destination(const DeviceMatrix& m, std::int64_t panel,
                                 const cpu::PackedMatrix& part) {
    if (mapped_.empty()) {
      turn_ ^= 1;
      queue_.until(done_[turn_]);
      CHECK(part.bytes() <= staging_[turn_].bytes());
      return staging_[turn_].data();
    }
    for (const SlabExtent& extent : m.extents) {
      const std::int64_t before = panel - extent.first_panel;
      if (before < 0 || before + part.panels > extent.panels) continue;
      return mapped_[extent.slab].data() + extent.at + before * m.panel_bytes;
    }
    bounce_buffer_.resize(part.bytes());
    return bounce_buffer_.data();
  }

  /// Writes a part's panels to their slabs.
  void write(const DeviceMatrix& m, std::int64_t panel, const cpu::PackedMatrix& part) {
    for (const SlabExtent& extent : m.extents) {
      const std::int64_t first = std::max(panel, extent.first_panel);
      const std::int64_t last = std::min(panel + part.panels, extent.first_panel + extent.panels);
      if (first >= last) continue;
      const std::uint64_t at =
          extent.at + static_cast<std::uint64_t>((first - extent.first_panel) * m.panel_bytes);
      const std::uint8_t* from = part.data + (first - panel) * m.panel_bytes;
      const auto bytes = static_cast<std::uint64_t>((last - first) * m.panel_bytes);
      if (mapped_.empty()) {
        queue_.write_later(to_.slab(extent), at, from, bytes);
      } else {
        std::memcpy(mapped_[extent.slab].data() + at, from, bytes);
      }
    }
  }

  const Weights& to_;
  Queue& queue_;
  ThreadPool pool_;
  std::vector<Mapping> mapped_;              // [slabs], of a device that is the host
  std::vector<std::uint8_t> bounce_buffer_;  // a part that lies in several slabs
  Staging staging_[2];
  EventHandle done_[2];  // its content has been uploaded
  int turn_ = 0;
};

/// The most bytes that are packed at once.
std::uint64_t Weights::part_bytes_most() const {
  std::uint64_t most = 1;
  for (const DeviceMatrix& m : matrices_) {
    const auto panel = static_cast<std::uint64_t>(m.panel_bytes);
    const auto all = panel * static_cast<std::uint64_t>(m.panels);
    most = std::max({most, panel, std::min<std::uint64_t>(all, kStagingBytes)});
  }
  return most;
}

Result<void> Weights::upload(DeviceContext& device_context, Queue& queue, int threads,
                             const std::function<void(double)>& progress) {
  const std::uint64_t all = bytes();
  for (const std::uint64_t slab : slab_bytes_) {
    HOLDFAST_TRY(Buffer buffer, device_context.memory().take_unfilled(slab, "weights"));
    slabs_.push_back(std::move(buffer));
  }
  const std::uint64_t vector_bytes = vector_values_.size() * sizeof(float);
  HOLDFAST_TRY(vectors_,
               device_context.memory().take(queue.get(), vector_bytes, "vectors of weights"));
  queue.write(vectors_.get(), 0, vector_values_.data(), vector_bytes);
  {
    Packer packer(*this, queue, threads);
    HOLDFAST_CHECKED(packer.take_staging(device_context));
    std::uint64_t done = vector_bytes;
    // Tensors that are made come first, the largest before all: memory is free then.
    std::stable_sort(jobs_.begin(), jobs_.end(), [](const Job& a, const Job& b) {
      return gguf::made_bytes(*a.from.tensor) > gguf::made_bytes(*b.from.tensor);
    });
    for (const Job& job : jobs_) {
      HOLDFAST_CHECKED(packer.pack(job, [&](std::uint64_t bytes) {
        done += bytes;
        if (progress) progress(static_cast<double>(done) / static_cast<double>(all));
      }));
    }
  }
  queue.finish();
  const cl_int status = queue.wait();  // here the driver allocates the memory
  if (status != CL_SUCCESS) return device_context.memory().refused(status, all, "weights");
  jobs_.clear();
  vector_values_ = {};
  return {};
}

}  // namespace holdfast::opencl
