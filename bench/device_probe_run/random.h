#pragma once
// Numbers of a trial: the same ones in every run.

#include <cmath>
#include <cstdint>

namespace holdfast::bench::probe {

/// A generator of 64 bits a step (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint32_t word() { return static_cast<std::uint32_t>(bits() >> 32); }
  std::uint32_t below(std::uint32_t n) { return word() % n; }
  /// About normal: the sum of four uniform numbers, with variance one.
  float normal() {
    const std::uint64_t b = bits();
    double sum = 0;
    for (int i = 0; i < 64; i += 16) sum += static_cast<double>(b >> i & 0xffff) / 65536.0 - 0.5;
    return static_cast<float>(sum * std::sqrt(3.0));
  }

 private:
  std::uint64_t state_;
};

/// FNV-1a of bytes.
inline std::uint64_t hash_of(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 0x100000001b3u;
  return hash;
}

}  // namespace holdfast::bench::probe
