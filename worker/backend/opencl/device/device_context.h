#pragma once
// An opened device, shared by all loads on it.

#include <memory>
#include <mutex>
#include <vector>

#include "worker/backend/opencl/device/memory.h"
#include "worker/backend/opencl/device/probe.h"
#include "worker/backend/opencl/device/programs.h"

namespace holdfast::opencl {

/// An opened OpenCL device: its context, memory and programs. Queues are made for each load.
class DeviceContext {
 public:
  /// The context of this device that is open, else a new one; it closes with its last user.
  /// kModelFailed: the device refuses. Thread-safe.
  static Result<std::shared_ptr<DeviceContext>> open(const Device& device);

  const Device& device() const { return device_; }
  cl_context context() const { return context_->get(); }
  DeviceMemory& memory() { return memory_; }
  Programs& programs() { return programs_; }
  /// A new in-order queue of this device. kModelFailed: the device refuses.
  Result<QueueHandle> make_queue() const;
  /// The device's capabilities, tried at the first call; `cache` as for Programs. Thread-safe.
  const Probe& probed(const std::string& cache);

 private:
  friend struct DeviceContexts;
  /// Opens a device in the context of `together` (distinct devices of one platform, it among them).
  static Result<std::shared_ptr<DeviceContext>> open_in(const Device& device,
                                                        const std::vector<cl_device_id>& together);
  DeviceContext(const Device& device, std::shared_ptr<const Context> context)
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

/// The device contexts of one load, in the order of its devices.
struct DeviceContexts {
  std::vector<std::shared_ptr<DeviceContext>> all;
  bool peers = false;  // they share a cl_context, and copies between their buffers arrive

  /// Opens them in one cl_context if they have one driver and a trial of copies between any two of
  /// them succeeds; else each in its own, and rows go through the host. Errors as
  /// DeviceContext::open.
  static Result<DeviceContexts> open(const std::vector<Device>& devices);
};

}  // namespace holdfast::opencl
