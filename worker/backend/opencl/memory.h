#pragma once
// The one allocator of a device's memory. Buffers live as long as an engine; a request never takes
// one.

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "worker/backend/cpu/memory.h"
#include "worker/backend/opencl/devices.h"

namespace holdfast::opencl {

struct MemoryUse {
  std::uint64_t taken = 0;    // buffers ever
  std::uint64_t buffers = 0;  // that live
  std::uint64_t bytes = 0;    // of them
  std::uint64_t peak_bytes = 0;
};

class DeviceMemory;

/// Owns one buffer, and its place in the allocator's books. The allocator must outlive it. A large
/// one of a device that is the host lies in huge pages of ours: drivers take small ones, whose
/// faults cost as much as filling them.
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
  cpu::Region region_;  // outlives the handle; empty where the driver has the memory
  MemoryHandle handle_;
  std::uint64_t bytes_ = 0;
};

/// Thread-safe.
class DeviceMemory {
 public:
  /// All allocators of a device, in whatever context, keep one book of what it has.
  DeviceMemory(const Device& device, cl_context context);

  /// A buffer of zeros. They are written at once: drivers give a buffer its memory on first use,
  /// and what the device does not have must be found out while loading. `queue` belongs to the
  /// context. kMemoryExhausted with needed and free bytes; kModelFailed: another refusal.
  Result<Buffer> take(cl_command_queue queue, std::uint64_t bytes, const std::string& what);
  /// One without content, for who writes all of it at once. Errors the same.
  Result<Buffer> take_unfilled(std::uint64_t bytes, const std::string& what);
  /// What a driver's refusal of this memory is, now or when it was first used.
  Error refused(cl_int status, std::uint64_t bytes, const std::string& what) const;
  /// kMemoryExhausted if so many bytes are not free, before anything is taken.
  Result<void> check_room(std::uint64_t bytes, const std::string& what) const;

  std::uint64_t free_bytes() const;
  /// The most that one buffer may have: the driver's bound, or what is free if that is less.
  std::uint64_t largest_buffer() const;
  MemoryUse use() const;

 private:
  friend class Buffer;
  void give_back(std::uint64_t bytes);
  Error exhausted(std::uint64_t bytes, const std::string& what, const std::string& cause) const;

  struct Book {
    std::mutex mutex;
    MemoryUse use;
  };
  static std::shared_ptr<Book> book_of(const Device& device);

  const Device device_;
  const cl_context context_;
  const std::shared_ptr<Book> book_;
};

/// Buffers that this process ever took, on all devices.
std::uint64_t buffer_count();

}  // namespace holdfast::opencl
