#include "worker/backend/opencl/split.h"

#include <algorithm>

#include "worker/backend/opencl/loader.h"

namespace holdfast::opencl {
namespace {

class SplitExecutor final : public backend::Executor {
 public:
  explicit SplitExecutor(std::vector<std::unique_ptr<OpenclExecutor>> parts)
      : parts_(std::move(parts)) {}

  Result<const float*> forward(const std::vector<backend::Segment>& segments) override {
    const float* x = nullptr;
    for (const auto& part : parts_) {
      HF_TRY(x, part->forward_part(segments, x));
    }
    return x;
  }
  Result<const float*> more_logits(std::int32_t first, std::int32_t n) override {
    return parts_.back()->more_logits(first, n);
  }
  const float* hidden(std::int32_t i) const override { return parts_.back()->hidden(i); }
  backend::Memory memory() const override {
    backend::Memory all;
    for (const auto& part : parts_) {
      const backend::Memory one = part->memory();
      all.weights += one.weights;
      all.kv += one.kv;
      all.scratch += one.scratch;
      all.on_device = one.on_device;
    }
    return all;
  }
  /// Of one device if all are alike, else with every one's.
  std::string class_prefix() const override {
    std::string all = parts_[0]->class_prefix();
    const std::string first = all;
    for (const auto& part : parts_) {
      if (part->class_prefix() != first) all += "+" + part->class_prefix().substr(7);  // "opencl/"
    }
    return all;
  }
  std::uint64_t allocations() const override { return buffer_count(); }

 private:
  std::vector<std::unique_ptr<OpenclExecutor>> parts_;
};

/// Layers [first, end) of a program; the first part has what comes before, the last what comes
/// behind.
model::Program part_of(const model::Program& program, std::int64_t first, std::int64_t end) {
  model::Program part = program;
  std::erase_if(part.ops, [&](const model::Op& op) {
    if (op.kind == model::OpKind::kNormLogits) return end != program.shape.layers;
    if (op.layer < 0) return first != 0;
    return op.layer < first || op.layer >= end;
  });
  return part;
}

}  // namespace

std::vector<std::int64_t> share_layers(std::int64_t layers,
                                       const std::vector<std::uint64_t>& memory) {
  const auto devices = static_cast<std::int64_t>(memory.size());
  CHECK(devices > 0 && devices <= layers);
  double all = 0, before = 0;
  for (const std::uint64_t bytes : memory) all += static_cast<double>(bytes);
  std::vector<std::int64_t> shares;
  std::int64_t given = 0;
  for (std::int64_t i = 0; i < devices; ++i) {
    before += static_cast<double>(memory[static_cast<std::size_t>(i)]);
    const double fair = all > 0 ? before / all : static_cast<double>(i + 1) / devices;
    const auto wanted = static_cast<std::int64_t>(fair * static_cast<double>(layers) + 0.5);
    // One for itself, and one left for each that follows.
    const std::int64_t end = std::clamp(wanted, given + 1, layers - (devices - 1 - i));
    shares.push_back(end - given);
    given = end;
  }
  return shares;
}

Result<std::unique_ptr<backend::Executor>> load_split(const std::vector<Device>& devices,
                                                      const model::Program& program,
                                                      const backend::LoadOptions& options,
                                                      cpu::KvType kv_type) {
  const std::int64_t layers = program.shape.layers;
  if (static_cast<std::int64_t>(devices.size()) > layers) {
    return refuse_load(Errc::kUsage, std::to_string(layers) + " layers over " +
                                         std::to_string(devices.size()) +
                                         " devices; expected a layer for each");
  }
  std::vector<std::shared_ptr<Station>> stations;
  std::vector<std::uint64_t> memory;
  for (const Device& device : devices) {
    HF_TRY(auto station, Station::open(device));
    memory.push_back(station->memory().free_bytes());
    stations.push_back(std::move(station));
  }
  const std::vector<std::int64_t> shares = share_layers(layers, memory);
  std::vector<std::unique_ptr<OpenclExecutor>> parts;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const model::Program part = part_of(program, first, first + shares[i]);
    first += shares[i];
    backend::LoadOptions own = options;
    if (options.progress) {
      const auto n = static_cast<double>(devices.size());
      own.progress = [&options, i, n](double done) {
        options.progress((static_cast<double>(i) + done) / n);
      };
    }
    HF_TRY(auto executor, Loader::open(stations[i], part, own, kv_type));
    parts.push_back(std::move(executor));
  }
  return std::unique_ptr<backend::Executor>(std::make_unique<SplitExecutor>(std::move(parts)));
}

}  // namespace holdfast::opencl
