#include "worker/backend/opencl/single/device_memory_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "worker/backend/opencl/single/loader.h"

namespace holdfast::opencl {

model::Program layers_of(const model::Program& program, std::int64_t first, std::int64_t end,
                         bool leading, bool trailing) {
  model::Program part = program;
  std::erase_if(part.ops, [&](const model::Op& op) {
    if (op.kind == model::OpKind::kNormLogits) return !trailing;
    if (op.layer < 0) return !leading;
    return op.layer < first || op.layer >= end;
  });
  return part;
}

namespace {

/// The smallest first layer of each device if those after it begin as early as they can.
Result<std::vector<std::int64_t>> earliest(std::int64_t layers, std::size_t devices,
                                           const Fits& fits) {
  std::vector<std::int64_t> starts(devices + 1, layers);
  for (std::size_t i = devices; i-- > 0;) {
    std::int64_t bad = static_cast<std::int64_t>(i) - 1, good = starts[i + 1];
    while (good - bad > 1) {
      const std::int64_t middle = bad + (good - bad) / 2;
      HOLDFAST_TRY(const bool fit, fits(i, middle, starts[i + 1]));
      (fit ? good : bad) = middle;
    }
    starts[i] = good;
  }
  return starts;
}

}  // namespace

Result<std::optional<std::vector<std::int64_t>>> share_layers(std::int64_t layers,
                                                              const std::vector<double>& weight,
                                                              const Fits& fits) {
  using Shares = std::optional<std::vector<std::int64_t>>;
  const std::size_t devices = weight.size();
  CHECK(devices > 0 && static_cast<std::int64_t>(devices) <= layers);
  HOLDFAST_TRY(const std::vector<std::int64_t> starts, earliest(layers, devices, fits));
  std::vector<std::int64_t> shares;
  double left = std::accumulate(weight.begin(), weight.end(), 0.0);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < devices; ++i) {
    const auto devices_after = static_cast<std::int64_t>(devices - 1 - i);
    const double fair = left > 0 ? weight[i] / left : 1.0 / static_cast<double>(devices_after + 1);
    left -= weight[i];
    const auto target_layers =
        static_cast<std::int64_t>(std::lround(fair * static_cast<double>(layers - first)));
    const std::int64_t least = std::max(first + 1, starts[i + 1]), most = layers - devices_after;
    std::int64_t end =
        devices_after == 0 ? most : std::clamp(first + target_layers, std::min(least, most), most);
    for (;; --end) {
      HOLDFAST_TRY(const bool fit, fits(i, first, end));
      if (fit) break;
      if (end <= least) return Shares();
    }
    shares.push_back(end - first);
    first = end;
  }
  return Shares(shares);
}

DeviceMemoryPlan::DeviceMemoryPlan(const DeviceContexts& device_contexts,
                                   const model::Program& program,
                                   const backend::LoadOptions& options, cpu::KvType kv_type,
                                   bool ends)
    : device_contexts_(device_contexts),
      program_(program),
      options_(options),
      kv_type_(kv_type),
      ends_(ends) {
  const model::WeightRef& output = program.ops.back().w[1];
  tied_ = device_contexts.all.size() > 1 && output.present() &&
          output.tensor == program.ops.front().w[0].tensor;
}

model::Program DeviceMemoryPlan::part(std::size_t i, std::int64_t first, std::int64_t end) const {
  const bool last = i + 1 == device_contexts_.all.size();
  return layers_of(program_, first, end, ends_ && (tied_ ? last : i == 0), ends_ && last);
}

std::uint64_t DeviceMemoryPlan::free_bytes(std::size_t i) const {
  const auto& all = device_contexts_.all;
  return all[i]->memory().free_bytes() /
         static_cast<std::uint64_t>(std::count(all.begin(), all.end(), all[i]));
}

Result<std::uint64_t> DeviceMemoryPlan::needed(std::size_t i, std::int64_t first,
                                               std::int64_t end) const {
  return Loader::measure(device_contexts_.all[i], part(i, first, end), options_, kv_type_);
}

Result<std::optional<std::vector<std::int64_t>>> DeviceMemoryPlan::share(
    std::int64_t layers, const std::vector<double>& rates) const {
  std::vector<double> weight = rates;
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] *= static_cast<double>(free_bytes(i));
  return share_layers(layers, weight,
                      [&](std::size_t i, std::int64_t first, std::int64_t end) -> Result<bool> {
                        if (first >= end) return true;
                        HOLDFAST_TRY(const std::uint64_t bytes, needed(i, first, end));
                        return bytes <= free_bytes(i);
                      });
}

Error DeviceMemoryPlan::refusal() const {
  std::uint64_t free = 0;
  std::string each;
  for (std::size_t i = 0; i < device_contexts_.all.size(); ++i) {
    free += free_bytes(i);
    each += (i > 0 ? " and " : "") + std::to_string(free_bytes(i));
  }
  const auto bytes = ends_ ? Loader::measure(device_contexts_.all[0], program_, options_, kv_type_)
                           : needed(0, 0, 1);
  if (!bytes) return bytes.error();
  return refuse_load(Errc::kMemoryExhausted,
                     (ends_ ? "the model needs " : "one layer needs ") + std::to_string(*bytes) +
                         " bytes, with scratch once for each device; " + std::to_string(free) +
                         " are free on them (" + each + "), and no division in their order fits" +
                         "; unload a model or lower context or slots");
}

}  // namespace holdfast::opencl
