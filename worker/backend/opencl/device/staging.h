#pragma once
// Device memory that the host writes. Staging is host memory that the device's driver copies
// fastest: the driver allocates it, and it stays mapped while it lives, so that copies to and from
// it go on while the host does something else.

#include <cstdint>
#include <string>

#include "worker/backend/opencl/device/queue.h"

namespace holdfast::opencl {

/// A mapping of a buffer, which the host may write while this lives. Not thread-safe; the buffer
/// and the queue outlive it.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  /// Maps all of the buffer; `flags` says if the host only writes. Fails with the driver's refusal.
  static Result<Mapping> make(const Api& api, cl_command_queue queue, cl_mem buffer,
                              std::uint64_t bytes, cl_map_flags flags, const std::string& what);
  std::uint8_t* data() const { return data_; }

 private:
  const Api* api_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_mem buffer_ = nullptr;
  std::uint8_t* data_ = nullptr;
};

/// Pinned host memory. Not thread-safe. Every copy to or from it must end before its destruction;
/// its queue outlives it.
class Staging {
 public:
  /// `context` is the queue's. kMemoryExhausted: the driver has no such memory; the message says
  /// how many bytes were requested.
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
