#pragma once
// The one allocator of engine-lifetime memory: large zeroed pages, counted.

#include <cstddef>
#include <cstdint>
#include <string>

#include "shared/base/result.h"

namespace holdfast::cpu {

/// Owns one mapping, 64-byte aligned (really page aligned), zero-filled, huge pages asked for; of
/// this process alone, or of an image (shared/images) that others map too. Pages come into being on
/// the node of the thread that touches them first.
class Region {
 public:
  /// kMemoryExhausted with needed and available bytes, before anything is touched.
  static Result<Region> take(std::size_t bytes, const std::string& what);
  /// The bytes that a region of so many takes: whole huge pages.
  static std::size_t rounded(std::size_t bytes);
  /// An empty image of rounded(bytes), to be filled. Errors as take().
  static Result<Region> share(int image, std::size_t bytes, const std::string& what);
  /// A full one, read-only. kMemoryExhausted if it cannot be mapped.
  static Result<Region> attach(int image, std::size_t bytes, const std::string& what);
  Region() = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  /// Gives every page its memory now, so that a machine that runs out does so while loading. A
  /// wish: systems before Linux 5.14 do it on first touch.
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

/// How many Regions were ever taken by this process.
std::uint64_t region_count();

/// Hands out 64-byte aligned pieces of a Region; first asked with no memory to learn the size.
class Carver {
 public:
  explicit Carver(std::uint8_t* base) : base_(base) {}
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
