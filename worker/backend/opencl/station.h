#pragma once
// An opened device: what all loads on it share.

#include <memory>
#include <mutex>
#include <vector>

#include "worker/backend/opencl/memory.h"
#include "worker/backend/opencl/probe.h"
#include "worker/backend/opencl/programs.h"

namespace holdfast::opencl {

class Station {
 public:
  /// The one of this device if it is open, else a new one; it closes with its last user.
  /// kModelFailed: the device refuses. Thread-safe.
  static Result<std::shared_ptr<Station>> open(const Device& device);

  const Device& device() const { return device_; }
  cl_context context() const { return context_->get(); }
  DeviceMemory& memory() { return memory_; }
  Programs& programs() { return programs_; }
  Result<QueueHandle> make_queue() const;
  /// What the device can, tried at the first call; `cache` as for Programs. Thread-safe.
  const Probe& probed(const std::string& cache);

 private:
  friend struct Stations;
  /// Of a device in the context of `together` (distinct devices of one platform, it among them).
  static Result<std::shared_ptr<Station>> open_in(const Device& device,
                                                  const std::vector<cl_device_id>& together);
  Station(const Device& device, std::shared_ptr<const Context> context)
      : device_(device),
        context_(std::move(context)),
        memory_(device, context_->get()),
        programs_(device, context_->get()) {}

  const Device device_;
  const std::shared_ptr<const Context> context_;
  DeviceMemory memory_;
  Programs programs_;
  std::once_flag probing_;
  Probe probed_;
};

/// Stations of the devices of one load, in their order.
struct Stations {
  std::vector<std::shared_ptr<Station>> all;
  bool peers = false;  // they share a context, and what one copies from another arrives

  /// In one context if one driver has them all and a trial of copies between any two of them gives
  /// what was written; else each in its own, and rows go through the host. Errors as Station::open.
  static Result<Stations> open(const std::vector<Device>& devices);
};

}  // namespace holdfast::opencl
