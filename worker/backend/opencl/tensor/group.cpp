#include "worker/backend/opencl/tensor/group.h"

namespace holdfast::opencl {
namespace {

std::vector<Queue*> queues_of(const Group::Parts& parts) {
  std::vector<Queue*> queues;
  for (const auto& part : parts) queues.push_back(&part->queue());
  return queues;
}

}  // namespace

backend::LoadOptions options_of_part(const backend::LoadOptions& all, std::size_t i,
                                     std::size_t n) {
  backend::LoadOptions part = all;
  if (!all.progress) return part;
  part.progress = [&all, i, n](double done) {
    all.progress((static_cast<double>(i) + done) / static_cast<double>(n));
  };
  return part;
}

Result<std::vector<Staging>> take_host(const Group::Parts& parts, bool peers, std::uint64_t bytes) {
  std::vector<Staging> host;
  for (int i = 0; i < 2 && !peers && parts.size() > 1; ++i) {
    HOLDFAST_TRY(Staging one, parts[0]->take_staging(bytes, "rows between devices"));
    host.push_back(std::move(one));
  }
  return host;
}

Group::Group(Parts&& parts, std::vector<Staging>&& host, std::size_t sends)
    : parts_(std::move(parts)), communicator_(queues_of(parts_), std::move(host)) {
  rows_.reserve(parts_.size());
  sends_.reserve(sends);
}

backend::Memory Group::memory() const {
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

void Group::begin(const backend::Batch& batch) {
  for (const auto& part : parts_) part->begin(batch);
}

Result<void> Group::settle() {
  Result<void> first;
  for (const auto& part : parts_) {
    Result<void> one = part->settle();
    if (first.has_value() && !one.has_value()) first = std::move(one);
  }
  return first;
}

bool Group::alike() const {
  for (const auto& part : parts_) {
    if (part->capabilities().class_prefix != parts_[0]->capabilities().class_prefix) return false;
  }
  return true;
}

}  // namespace holdfast::opencl
