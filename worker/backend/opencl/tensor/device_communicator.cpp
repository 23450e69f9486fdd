#include "worker/backend/opencl/tensor/device_communicator.h"

#include <algorithm>

#include "shared/base/check.h"

namespace holdfast::opencl {

DeviceCommunicator::DeviceCommunicator(std::vector<Queue*> queues, std::vector<Staging>&& host)
    : queues_(std::move(queues)), host_(std::move(host)) {
  done_.resize(queues_.size());
  waited_.reserve(queues_.size());
}

bool DeviceCommunicator::gets(std::size_t part, const Send& send) const {
  const int me = static_cast<int>(part);
  return send.from != me && (send.to == Send::kOthers || send.to == me);
}

void DeviceCommunicator::run(const std::vector<RowsAt>& rows, const std::vector<Send>& sends) {
  for (const RowsAt& r : rows) CHECK(r.stride == rows[0].stride);
  if (sends.empty() || queues_.size() < 2) return;
  if (host_.empty()) {
    copy(rows, sends);
  } else {
    stage(rows, sends);
  }
}

void DeviceCommunicator::wait_for_others(std::size_t part) {
  waited_.clear();
  for (std::size_t other = 0; other < done_.size(); ++other) {
    if (other != part && done_[other].get() != nullptr) waited_.push_back(done_[other].get());
  }
  queues_[part]->wait_for(waited_);
}

/// Every receiver waits for the senders and copies; then every sender waits for the receivers,
/// because its next operation may overwrite what they copy.
void DeviceCommunicator::copy(const std::vector<RowsAt>& rows, const std::vector<Send>& sends) {
  const auto any = [&](auto holds) { return std::any_of(sends.begin(), sends.end(), holds); };
  const auto sender = [&](std::size_t p) {
    return any([&](const Send& s) { return s.from == static_cast<int>(p); });
  };
  const auto getter = [&](std::size_t p) { return any([&](const Send& s) { return gets(p, s); }); };
  for (std::size_t p = 0; p < queues_.size(); ++p) {
    done_[p] = sender(p) ? queues_[p]->done() : EventHandle();
  }
  for (std::size_t p = 0; p < queues_.size(); ++p) {
    if (!getter(p)) continue;
    wait_for_others(p);
    for (const Send& s : sends) {
      if (gets(p, s))
        queues_[p]->copy_block(rows[static_cast<std::size_t>(s.from)], rows[p], s.block);
    }
  }
  for (std::size_t p = 0; p < queues_.size(); ++p) {
    done_[p] = getter(p) ? queues_[p]->done() : EventHandle();
  }
  for (std::size_t p = 0; p < queues_.size(); ++p) {
    if (sender(p)) wait_for_others(p);
  }
}

void DeviceCommunicator::stage(const std::vector<RowsAt>& rows, const std::vector<Send>& sends) {
  turn_ = (turn_ + 1) % host_.size();
  auto* host = reinterpret_cast<float*>(host_[turn_].data());
  const std::int64_t stride = rows[0].stride;
  for (const Send& s : sends) {
    const Block& b = s.block;
    CHECK(static_cast<std::uint64_t>((b.row + b.rows - 1) * stride + b.column + b.columns) <=
          host_[turn_].bytes() / sizeof(float));
    queues_[static_cast<std::size_t>(s.from)]->read_block(rows[static_cast<std::size_t>(s.from)], b,
                                                          host, stride);
  }
  // All queues, senders or not: the other staging memory is free again when this returns.
  for (Queue* queue : queues_) queue->finish();
  for (std::size_t p = 0; p < queues_.size(); ++p) {
    for (const Send& s : sends) {
      if (gets(p, s)) queues_[p]->write_block(rows[p], s.block, host, stride);
    }
  }
}

}  // namespace holdfast::opencl
