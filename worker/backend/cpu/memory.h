#pragma once
// The one allocator of engine-lifetime memory: large zeroed pages, counted.

#include <cstddef>
#include <cstdint>
#include <string>

#include "shared/base/result.h"

namespace holdfast::cpu {

/// Owns one mapping, 64-byte aligned (really page aligned), zero-filled, with huge pages requested:
/// private to this process, or a memfd (shared/weight_cache) that others map too. Pages are
/// allocated on the NUMA node of the thread that touches them first.
class Region {
 public:
  /// Maps private memory. kMemoryExhausted with needed and available bytes, before anything is
  /// touched.
  static Result<Region> take(std::size_t bytes, const std::string& what);
  /// The bytes that a region of `bytes` takes: whole huge pages.
  static std::size_t rounded(std::size_t bytes);
  /// Maps an empty memfd of rounded(bytes), to be filled. Errors as take().
  static Result<Region> share(int memfd, std::size_t bytes, const std::string& what);
  /// Maps a filled memfd, read-only. kMemoryExhausted if it cannot be mapped.
  static Result<Region> attach(int memfd, std::size_t bytes, const std::string& what);
  Region() = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  /// Allocates every page now, so that a machine that runs out of memory does so while loading.
  /// Best effort: systems before Linux 5.14 allocate on first touch.
  void populate();

  std::uint8_t* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  static Result<Region> map(std::size_t bytes, int protection, int flags, int fd,
                            const std::string& what);
  std::uint8_t* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The number of Regions that this process has ever taken.
std::uint64_t region_count();

/// Hands out 64-byte aligned parts of a Region. Run once without memory, it measures the size.
class Arena {
 public:
  explicit Arena(std::uint8_t* base) : base_(base) {}
  std::uint8_t* bytes(std::size_t n) {
    std::uint8_t* at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (n + 63) / 64 * 64;
    return at;
  }
  float* floats(std::int64_t n) {
    return reinterpret_cast<float*>(bytes(static_cast<std::size_t>(n) * sizeof(float)));
  }
  std::size_t used() const { return used_; }

 private:
  std::uint8_t* base_;
  std::size_t used_ = 0;
};

}  // namespace holdfast::cpu
