#pragma once
// An opened device: what all loads on it share.

#include <memory>

#include "worker/backend/opencl/memory.h"
#include "worker/backend/opencl/programs.h"

namespace holdfast::opencl {

class Station {
 public:
  /// The one of this device if it is open, else a new one; it closes with its last user.
  /// kModelFailed: the device refuses. Thread-safe.
  static Result<std::shared_ptr<Station>> open(const Device& device);

  const Device& device() const { return device_; }
  cl_context context() const { return context_.get(); }
  DeviceMemory& memory() { return memory_; }
  Programs& programs() { return programs_; }
  Result<QueueHandle> make_queue() const;

 private:
  Station(const Device& device, Context context)
      : device_(device),
        context_(std::move(context)),
        memory_(device, context_.get()),
        programs_(device, context_.get()) {}

  const Device device_;
  const Context context_;
  DeviceMemory memory_;
  Programs programs_;
};

}  // namespace holdfast::opencl
