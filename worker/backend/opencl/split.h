#pragma once
// One model over several devices by layers: each device has a run of them with their weights and KV
// pages, and hands its rows of x to the next one. The bits are those of one device.

#include <memory>
#include <vector>

#include "worker/backend/backend.h"
#include "worker/backend/cpu/kernels.h"
#include "worker/backend/opencl/devices.h"
#include "worker/backend/opencl/group.h"
#include "worker/backend/opencl/pieces.h"
#include "worker/backend/opencl/room.h"

namespace holdfast::opencl {

/// As opencl::load, over devices in this order; a device may be named more than once. kUsage: more
/// devices than layers.
Result<std::unique_ptr<backend::Executor>> load_split(const std::vector<Device>& devices,
                                                      const model::Program& program,
                                                      const backend::LoadOptions& options,
                                                      cpu::KvType kv_type);

/// Runs of layers on devices, one behind the other.
class LayerSplit final : public Group {
 public:
  /// `layers`: of each part; said in the class where devices are not alike.
  LayerSplit(Parts&& parts, std::vector<Staging>&& host, std::vector<std::int64_t> layers);

  /// Larger batches go through the devices in pieces, so that all of them have work.
  Result<const float*> forward(const std::vector<backend::Segment>& segments) override;
  /// Pieces have at least this many tokens.
  void set_piece_rows(std::int32_t rows) { piece_rows_ = rows; }
  Result<const float*> more_logits(std::int32_t first, std::int32_t n) override;
  const float* hidden(std::int32_t i) const override { return parts_.back()->hidden(i); }
  bool gives_best() const override { return parts_.back()->gives_best(); }
  std::int32_t best(std::int32_t row) const override { return parts_.back()->best(row); }
  std::int32_t top_most() const override { return parts_.back()->top_most(); }
  const backend::Ranked* top(std::int32_t row) const override { return parts_.back()->top(row); }
  /// Where another backend has both ends: x, [batch] rows `stride` apart, through these layers.
  Result<void> pass(const std::vector<backend::Segment>& segments, float* x, std::int64_t stride);
  std::string class_prefix() const override;

 private:
  struct Leg {  // operations [first, end) of a part
    std::size_t part, first, end;
  };
  void run_legs();
  Result<void> run_pieces(const std::vector<BatchPiece>& pieces);
  Result<void> run_piece(std::size_t leg, const BatchPiece& piece);
  /// Rows of x of a part to another one's x, or where they wait for it.
  void hand_on(std::size_t from, std::size_t to, std::int64_t rows, bool wait);

  const std::vector<std::int64_t> layers_;
  std::vector<Leg> legs_;
  Pieces pieces_;
  std::int32_t piece_rows_ = Pieces::kRows;
  bool may_wait_ = true;  // every part has room for rows that wait
};

/// Loads the parts. The room outlives the call.
Result<std::unique_ptr<LayerSplit>> open_layers(const Room& room,
                                                const std::vector<std::int64_t>& shares,
                                                const backend::LoadOptions& options);

}  // namespace holdfast::opencl
