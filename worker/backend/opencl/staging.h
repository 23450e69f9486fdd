#pragma once
// Memory of the host that the device's driver moves fastest: allocated by the driver, and mapped
// for as long as it lives, so that copies to and from it can go on while the host does something
// else.

#include <cstdint>
#include <string>

#include "worker/backend/opencl/queue.h"

namespace holdfast::opencl {

/// Not thread-safe. Every copy to or from it must have ended before it goes; its queue outlives it.
class Staging {
 public:
  Staging() = default;
  Staging(Staging&& other) noexcept;
  Staging& operator=(Staging&& other) noexcept;
  ~Staging();

  /// `context` is the queue's. kMemoryExhausted: the driver gives no such memory; says how much was
  /// wanted.
  static Result<Staging> take(const Api& api, cl_context context, cl_command_queue queue,
                              std::uint64_t bytes, const std::string& what);
  std::uint8_t* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  const Api* api_ = nullptr;
  cl_command_queue queue_ = nullptr;
  MemoryHandle handle_;
  std::uint8_t* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace holdfast::opencl
