#pragma once
// How the layers of a model are divided over devices: by weight, as far as they fit.

#include <functional>
#include <optional>
#include <vector>

#include "worker/backend/backend.h"
#include "worker/backend/cpu/kernels.h"
#include "worker/backend/opencl/station.h"

namespace holdfast::opencl {

/// Whether layers [first, end) fit on a device.
using Fits = std::function<Result<bool>(std::size_t device, std::int64_t first, std::int64_t end)>;

/// How many layers each device gets, in their order: in proportion to `weight` as far as they fit,
/// at least one each. nullopt: they do not fit, however they are divided in this order. Wants no
/// more devices than layers. Errors of `fits`.
Result<std::optional<std::vector<std::int64_t>>> share_layers(std::int64_t layers,
                                                              const std::vector<double>& weight,
                                                              const Fits& fits);

/// Layers [first, end) of a program, with what comes before the layers and what comes behind them
/// where it is wanted.
model::Program layers_of(const model::Program& program, std::int64_t first, std::int64_t end,
                         bool leading, bool trailing);

/// What parts of a model would take, and what their devices have for them. Refers to all that it
/// is given.
class Room {
 public:
  /// `ends`: the parts have embedding and output too; where those are one matrix, both on the last
  /// device.
  Room(const Stations& stations, const model::Program& program, const backend::LoadOptions& options,
       cpu::KvType kv_type, bool ends);

  /// The first `layers` layers, weighted by what is free on each device times its rate. Errors of
  /// placing weights.
  Result<std::optional<std::vector<std::int64_t>>> share(std::int64_t layers,
                                                         const std::vector<double>& rates) const;
  model::Program part(std::size_t i, std::int64_t first, std::int64_t end) const;
  /// Of device i; one that is named more than once is shared out equally.
  std::uint64_t free_bytes(std::size_t i) const;
  /// Why the whole model, or its first layer, cannot be there, in numbers.
  Error refusal() const;

  const Stations& stations() const { return stations_; }
  cpu::KvType kv_type() const { return kv_type_; }

 private:
  Result<std::uint64_t> needed(std::size_t i, std::int64_t first, std::int64_t end) const;

  const Stations& stations_;
  const model::Program& program_;
  const backend::LoadOptions& options_;
  const cpu::KvType kv_type_;
  const bool ends_;
  bool tied_ = false;
};

}  // namespace holdfast::opencl
