#pragma once
// The only allocator of a device's memory. Buffers live as long as an engine; requests allocate
// none.

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "worker/backend/cpu/memory.h"
#include "worker/backend/opencl/device/devices.h"

namespace holdfast::opencl {

/// Counts of an allocator.
struct MemoryUse {
  std::uint64_t taken = 0;    // buffers ever allocated
  std::uint64_t buffers = 0;  // live buffers
  std::uint64_t bytes = 0;    // bytes of live buffers
  std::uint64_t peak_bytes = 0;
};

class DeviceMemory;

/// Owns one buffer and its share in the allocator's counts. The allocator must outlive it. On a
/// device that is the host, a large buffer lies in huge pages that this class maps: drivers use
/// small pages, whose faults cost as much as filling them.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();
  cl_mem get() const { return handle_.get(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  friend class DeviceMemory;
  Buffer(DeviceMemory& owner, cpu::Region region, MemoryHandle handle, std::uint64_t bytes)
      : owner_(&owner), region_(std::move(region)), handle_(std::move(handle)), bytes_(bytes) {}
  DeviceMemory* owner_ = nullptr;
  cpu::Region region_;  // outlives the handle; empty where the driver allocates
  MemoryHandle handle_;
  std::uint64_t bytes_ = 0;
};

/// Allocates buffers of a device and counts them. Thread-safe.
class DeviceMemory {
 public:
  /// All allocators of a device, in whatever context, share one count of what it has free.
  DeviceMemory(const Device& device, cl_context context);

  /// A buffer of zeros. They are written at once: drivers allocate a buffer on first use, and a
  /// lack of memory must be found while loading. `queue` belongs to the context. kMemoryExhausted
  /// with needed and free bytes; kModelFailed: another refusal.
  Result<Buffer> take(cl_command_queue queue, std::uint64_t bytes, const std::string& what);
  /// A buffer without defined content, for a caller that fills all of it at once. The same errors.
  Result<Buffer> take_unfilled(std::uint64_t bytes, const std::string& what);
  /// The error for a driver's refusal of this memory, at allocation or first use.
  Error refused(cl_int status, std::uint64_t bytes, const std::string& what) const;
  /// kMemoryExhausted if fewer bytes are free; nothing is allocated.
  Result<void> check_free(std::uint64_t bytes, const std::string& what) const;

  std::uint64_t free_bytes() const;
  /// The most bytes of one buffer: the driver's bound, or what is free if that is less.
  std::uint64_t largest_buffer() const;
  MemoryUse use() const;

 private:
  friend class Buffer;
  void give_back(std::uint64_t bytes);
  Error exhausted(std::uint64_t bytes, const std::string& what, const std::string& cause) const;

  struct DeviceUsage {
    std::mutex mutex;
    MemoryUse use;
  };
  static std::shared_ptr<DeviceUsage> usage_of(const Device& device);

  const Device device_;
  const cl_context context_;
  const std::shared_ptr<DeviceUsage> usage_;
};

/// Number of buffers that this process has ever allocated, on all devices.
std::uint64_t buffer_count();

}  // namespace holdfast::opencl
