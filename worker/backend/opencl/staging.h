#pragma once
// Device memory as the host writes it. Staging is memory of the host that the device's driver moves
// fastest: allocated by the driver, and mapped for as long as it lives, so that copies to and from
// it can go on while the host does something else.

#include <cstdint>
#include <string>

#include "worker/backend/opencl/queue.h"

namespace holdfast::opencl {

/// A buffer that the host may write until this goes. Not thread-safe; the buffer and the queue
/// outlive it.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  /// All of the buffer, of which the host only writes if `flags` says so. The driver's refusal.
  static Result<Mapping> make(const Api& api, cl_command_queue queue, cl_mem buffer,
                              std::uint64_t bytes, cl_map_flags flags, const std::string& what);
  std::uint8_t* data() const { return data_; }

 private:
  const Api* api_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_mem buffer_ = nullptr;
  std::uint8_t* data_ = nullptr;
};

/// Not thread-safe. Every copy to or from it must have ended before it goes; its queue outlives it.
class Staging {
 public:
  /// `context` is the queue's. kMemoryExhausted: the driver gives no such memory; says how much was
  /// wanted.
  static Result<Staging> take(const Api& api, cl_context context, cl_command_queue queue,
                              std::uint64_t bytes, const std::string& what);
  std::uint8_t* data() const { return mapping_.data(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  MemoryHandle handle_;
  Mapping mapping_;  // goes before the handle
  std::uint64_t bytes_ = 0;
};

}  // namespace holdfast::opencl
