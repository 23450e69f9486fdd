#pragma once
// Random Q4_K weights, in the orders that the kernels under test read.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/device_probe_run/half.h"

namespace holdfast::bench::probe {

inline constexpr std::size_t kPanelRows = 16;
inline constexpr std::size_t kBlockK = 256, kGroupK = 32, kGroups = kBlockK / kGroupK;
inline constexpr std::size_t kBlockBytes = 2368;  // of 16 rows by 256 k, in each order

/// Orders of a block's bytes.
enum class Order {
  kPacked,  // worker/weights/layout.h
  /// Four times (64 k) a lane's four words: word j has the fragment of mma.m16n8k16 of 16 k,
  /// nibbles 0 and 4: row g, k 2t and 2t + 1; 1 and 5: row g + 8; 2 and 6: row g, k 2t + 8, 2t + 9;
  /// 3 and 7: row g + 8. Then [16][8]{scale, minimum} bytes, then [16]{d, -dmin} halves.
  kHalves
};

/// Sixteen rows of k weights: weight = d * scale * code - dmin * minimum.
struct Panel {
  Panel(std::size_t k, std::uint64_t seed);

  std::size_t k = 0;
  std::vector<std::uint8_t> codes;           // [16][k]
  std::vector<std::uint8_t> scales, minima;  // [16][k / 32]
  std::vector<Half> d, dmin;                 // [16][k / 256]

  double weight(std::size_t row, std::size_t at) const;
  std::vector<std::uint8_t> bytes(Order order) const;

 private:
  unsigned code(std::size_t row, std::size_t at) const { return codes[row * k + at]; }
  void put_packed(std::size_t block, std::uint8_t* to) const;
  void put_fragments(std::size_t block, std::uint8_t* to) const;
};

}  // namespace holdfast::bench::probe
