#include "worker/backend/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "shared/base/host_memory.h"

namespace holdfast::cpu {
namespace {

std::atomic<std::uint64_t> g_taken{0};

constexpr std::size_t kHuge = std::size_t{2} << 20;

/// Bytes available without swapping, limits of control groups included; 0 if unknown.
std::size_t available_bytes() {
  const std::int64_t bytes = available_memory(host_memory_pools());
  return bytes < 0 ? 0 : static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
}

Error exhausted(const std::string& what, std::size_t bytes, std::size_t free) {
  return {Errc::kMemoryExhausted, "take memory for " + what + ": needs " + std::to_string(bytes) +
                                      " bytes, " + std::to_string(free) +
                                      " are available; unload a model or lower context or slots"};
}

}  // namespace

std::size_t Region::rounded(std::size_t bytes) {
  return (bytes + kHuge - 1) / kHuge * kHuge;
}

Result<Region> Region::map(std::size_t bytes, int protection, int flags, int fd,
                           const std::string& what) {
  const std::size_t whole = rounded(bytes);
  Region r;
  if (whole == 0) return r;
  void* at = mmap(nullptr, whole, protection, flags | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED) return exhausted(what, bytes, available_bytes());
  madvise(at, whole, MADV_HUGEPAGE);  // best effort: all works without it
  r.data_ = static_cast<std::uint8_t*>(at);
  r.bytes_ = whole;
  g_taken.fetch_add(1, std::memory_order_relaxed);
  return r;
}

Result<Region> Region::take(std::size_t bytes, const std::string& what) {
  const std::size_t free = available_bytes();
  if (free != 0 && rounded(bytes) > free) return exhausted(what, bytes, free);
  return map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, what);
}

Result<Region> Region::share(int memfd, std::size_t bytes, const std::string& what) {
  const std::size_t free = available_bytes();
  if (free != 0 && rounded(bytes) > free) return exhausted(what, bytes, free);
  return map(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, what);
}

Result<Region> Region::attach(int memfd, std::size_t bytes, const std::string& what) {
  // Maps all pages now: they exist, and the first request must not wait for them one by one.
  return map(bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, memfd, what);
}

Region::Region(Region&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Region::~Region() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

void Region::populate() {
#ifdef MADV_POPULATE_WRITE
  if (data_ != nullptr) madvise(data_, bytes_, MADV_POPULATE_WRITE);
#endif
}

std::uint64_t region_count() {
  return g_taken.load(std::memory_order_relaxed);
}

}  // namespace holdfast::cpu
