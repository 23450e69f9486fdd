#include "worker/backend/opencl/device/memory.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

namespace holdfast::opencl {
namespace {

std::atomic<std::uint64_t> g_buffers{0};

constexpr std::uint64_t kRounding = 256;               // whole lines of any device's memory
constexpr std::uint64_t kHugePagesMinBytes = 4 << 20;  // huge pages waste little from here on

std::uint64_t rounded(std::uint64_t bytes) {
  return (std::max<std::uint64_t>(bytes, 1) + kRounding - 1) / kRounding * kRounding;
}

bool is_exhaustion(cl_int status) {
  return status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_RESOURCES ||
         status == CL_OUT_OF_HOST_MEMORY || status == CL_INVALID_BUFFER_SIZE;
}

}  // namespace

DeviceMemory::DeviceMemory(const Device& device, cl_context context)
    : device_(device), context_(context), usage_(usage_of(device)) {}

std::shared_ptr<DeviceMemory::DeviceUsage> DeviceMemory::usage_of(const Device& device) {
  static std::mutex mutex;
  static std::map<std::pair<const Api*, cl_device_id>, std::weak_ptr<DeviceUsage>> usages;
  const std::lock_guard lock(mutex);
  std::weak_ptr<DeviceUsage>& entry = usages[{device.api, device.id}];
  auto usage = entry.lock();
  if (usage == nullptr) entry = usage = std::make_shared<DeviceUsage>();
  return usage;
}

Buffer::Buffer(Buffer&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)),
      region_(std::move(other.region_)),
      handle_(std::move(other.handle_)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(region_, other.region_);
  std::swap(handle_, other.handle_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Buffer::~Buffer() {
  if (owner_ != nullptr) owner_->give_back(bytes_);
}

Error DeviceMemory::exhausted(std::uint64_t bytes, const std::string& what,
                              const std::string& cause) const {
  return {Errc::kMemoryExhausted,
          "take device memory for " + what + ": needs " + std::to_string(bytes) + " bytes, " +
              std::to_string(free_bytes()) + " are free on " + device_.name + cause +
              "; unload a model or lower context or slots"};
}

Result<void> DeviceMemory::check_free(std::uint64_t bytes, const std::string& what) const {
  if (bytes <= free_bytes()) return {};
  return exhausted(bytes, what, "");
}

Error DeviceMemory::refused(cl_int status, std::uint64_t bytes, const std::string& what) const {
  if (is_exhaustion(status)) {
    return exhausted(bytes, what, ", and the driver says " + status_text(status));
  }
  return {Errc::kModelFailed,
          "take device memory for " + what + " on " + device_.name + ": " + status_text(status)};
}

Result<Buffer> DeviceMemory::take_unfilled(std::uint64_t bytes, const std::string& what) {
  bytes = rounded(bytes);
  HOLDFAST_CHECKED(check_free(bytes, what));
  if (bytes > device_.max_alloc) {
    return exhausted(bytes, what,
                     " but one buffer may have " + std::to_string(device_.max_alloc) + " only");
  }
  cpu::Region region;
  if (device_.is_host && bytes >= kHugePagesMinBytes) {
    HOLDFAST_TRY(region, cpu::Region::take(bytes, what));
  }
  const cl_mem_flags where = region.data() != nullptr ? CL_MEM_USE_HOST_PTR : 0;
  cl_int status = CL_SUCCESS;
  MemoryHandle handle(*device_.api, device_.api->clCreateBuffer(context_, CL_MEM_READ_WRITE | where,
                                                                bytes, region.data(), &status));
  if (status != CL_SUCCESS) return refused(status, bytes, what);
  g_buffers.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(usage_->mutex);
  MemoryUse& use = usage_->use;
  ++use.taken;
  ++use.buffers;
  use.bytes += bytes;
  use.peak_bytes = std::max(use.peak_bytes, use.bytes);
  return Buffer(*this, std::move(region), std::move(handle), bytes);
}

Result<Buffer> DeviceMemory::take(cl_command_queue queue, std::uint64_t bytes,
                                  const std::string& what) {
  HOLDFAST_TRY(Buffer buffer, take_unfilled(bytes, what));
  if (buffer.region_.data() != nullptr) {  // zero already
    buffer.region_.populate();
    return buffer;
  }
  const Api& api = *device_.api;
  const cl_uint zero = 0;
  cl_int status = api.clEnqueueFillBuffer(queue, buffer.get(), &zero, sizeof zero, 0,
                                          buffer.bytes(), 0, nullptr, nullptr);
  if (status == CL_SUCCESS) status = api.clFinish(queue);
  if (status != CL_SUCCESS) return refused(status, bytes, what);
  return buffer;
}

void DeviceMemory::give_back(std::uint64_t bytes) {
  const std::lock_guard lock(usage_->mutex);
  CHECK(usage_->use.buffers > 0 && usage_->use.bytes >= bytes);
  --usage_->use.buffers;
  usage_->use.bytes -= bytes;
}

std::uint64_t DeviceMemory::free_bytes() const {
  const std::lock_guard lock(usage_->mutex);
  return device_.memory - std::min(device_.memory, usage_->use.bytes);
}

std::uint64_t DeviceMemory::largest_buffer() const {
  return std::min(device_.max_alloc, free_bytes()) / kRounding * kRounding;
}

MemoryUse DeviceMemory::use() const {
  const std::lock_guard lock(usage_->mutex);
  return usage_->use;
}

std::uint64_t buffer_count() {
  return g_buffers.load(std::memory_order_relaxed);
}

}  // namespace holdfast::opencl
