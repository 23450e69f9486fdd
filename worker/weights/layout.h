#pragma once
// The memory layout of packed weights: panels of 16 output rows, lane = row, so that a product is
// one chain of fused multiply-adds per output and no kernel ever sums across lanes.
//
// A panel is a run of blocks along k. A block holds, in this order (16 = one entry per lane):
//   d[16] half (of MXFP4 bfloat16, of NVFP4 one for each group) | m[16] half (if has_m) |
//   scale[groups][16] byte | minimum[groups][16] byte | low plane | high plane
// Low plane, by bits: 32, 16: [k][16]. 8: a dword per lane for 4 k. 4: a dword per lane for 8 k (k
// = i at bits 8i, k = 4 + i at bits 8i + 4, i < 4). 2: a dword per lane for 16 k, see
// crumb_shift(). High plane, 1 bit: a dword per lane for 32 k; 2 bits: for 16 k. Within a dword
// byte i belongs to k = i (mod 4), so one shift, one mask and byte shuffles give four codes.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "shared/gguf/gguf.h"
#include "shared/plan/kernel_sizes.h"

namespace holdfast::cpu {

using plan::kLanes;
using plan::kSpan;
using plan::round_up;
inline constexpr int kUnit = 8;  // k that one dword of 4-bit codes holds

/// The packed layouts, a value each.
enum class Format : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kTwoBit,  // all IQ1 and IQ2
  kIQ3_XXS,
  kIQ3_S,
  kMXFP4,
  kNVFP4,
  kTernary,  // TQ1_0, TQ2_0, Q1_0, Q2_0
  kCount
};

/// The parts of a format's block. Weight = code * a + b with a, b per lane and group:
/// a = d, d * scale; b = m, -(dmin * minimum), or -offset * a (exact, offset is a power of two).
struct Layout {
  int block;         // k in a block
  int group;         // k that share a and b
  bool has_d;        // false: the low plane holds the weights themselves
  bool has_m;        // m (32-blocks) or dmin (256-blocks) besides d
  bool has_scale;    // a signed or unsigned byte per group and lane
  bool has_minimum;  // an unsigned byte per group and lane
  bool nibbles;      // scale in the low and minimum in the high half of one byte
  int low_bits;
  int high_bits;
  int offset;           // subtracted from the code
  bool table;           // codes index the format's table of 16 values
  bool d_bf16 = false;  // d is a bfloat16
  bool d_each = false;  // a d for each group
};

inline constexpr Layout kLayouts[] = {
    // block grp  d      m      scale  min    nibble low hi off table
    {32, 32, false, false, false, false, false, 32, 0, 0, false},            // F32
    {32, 32, false, false, false, false, false, 16, 0, 0, false},            // F16
    {32, 32, false, false, false, false, false, 16, 0, 0, false},            // BF16
    {32, 32, true, false, false, false, false, 4, 0, 8, false},              // Q4_0
    {32, 32, true, true, false, false, false, 4, 0, 0, false},               // Q4_1
    {32, 32, true, false, false, false, false, 4, 1, 16, false},             // Q5_0
    {32, 32, true, true, false, false, false, 4, 1, 0, false},               // Q5_1
    {32, 32, true, false, false, false, false, 8, 0, 0, false},              // Q8_0
    {256, 16, true, true, true, true, true, 2, 0, 0, false},                 // Q2_K
    {256, 16, true, false, true, false, false, 2, 1, 4, false},              // Q3_K
    {256, 32, true, true, true, true, false, 4, 0, 0, false},                // Q4_K
    {256, 32, true, true, true, true, false, 4, 1, 0, false},                // Q5_K
    {256, 16, true, false, true, false, false, 4, 2, 32, false},             // Q6_K
    {32, 32, true, false, false, false, false, 4, 0, 0, true},               // IQ4_NL
    {256, 32, true, false, true, false, false, 4, 0, 0, true},               // IQ4_XS
    {256, 16, true, false, true, false, false, 4, 0, 0, true},               // IQ1, IQ2
    {256, 32, true, false, true, false, false, 4, 0, 0, true},               // IQ3_XXS
    {256, 32, true, false, true, false, false, 4, 0, 0, true},               // IQ3_S
    {32, 32, true, false, false, false, false, 4, 0, 0, true, true},         // MXFP4
    {64, 16, true, false, false, false, false, 4, 0, 0, true, false, true},  // NVFP4
    {64, 64, true, false, false, false, false, 2, 0, 1, false},              // ternary
};
static_assert(sizeof(kLayouts) / sizeof(kLayouts[0]) == static_cast<int>(Format::kCount));

/// Returns the row of a format.
constexpr const Layout& layout_of(Format format) {
  return kLayouts[static_cast<int>(format)];
}

/// The values of 4-bit codes of IQ4_NL and IQ4_XS (format fact), and those of the other formats
/// with tables, equal to gguf::CodedTraits::values (a test compares).
inline constexpr float kNonLinear4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr float kTwoBitValues[16] = {1,       3.125f, 5.375f, -1,      -3.125f, -5.375f,
                                            -0.875f, 0.125f, 1.125f, -1.125f, -0.125f, 0.875f};
inline constexpr float kIq3XxsValues[16] = {1,  3,  5,  7,  9,  11,  13,  15.5f,
                                            -1, -3, -5, -7, -9, -11, -13, -15.5f};
inline constexpr float kIq3SValues[16] = {1,  3,  5,  7,  9,  11,  13,  15,
                                          -1, -3, -5, -7, -9, -11, -13, -15};
inline constexpr float kFp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr const float* table_of(Format format) {
  switch (format) {
    case Format::kTwoBit:
      return kTwoBitValues;
    case Format::kIQ3_XXS:
      return kIq3XxsValues;
    case Format::kIQ3_S:
      return kIq3SValues;
    case Format::kMXFP4:
    case Format::kNVFP4:
      return kFp4Values;
    default:
      return kNonLinear4;
  }
}

// Byte offsets inside a packed block.
constexpr int scale_offset(const Layout& l) {
  return (l.has_d ? 32 * (l.d_each ? l.block / l.group : 1) : 0) + (l.has_m ? 32 : 0);
}
constexpr int groups_of(const Layout& l) {
  return l.block / l.group;
}
constexpr int minimum_offset(const Layout& l) {
  return scale_offset(l) + (l.has_scale ? groups_of(l) * kLanes : 0);
}
constexpr int low_offset(const Layout& l) {
  return minimum_offset(l) + (l.has_minimum && !l.nibbles ? groups_of(l) * kLanes : 0);
}
constexpr int high_offset(const Layout& l) {
  return low_offset(l) + l.block * kLanes * l.low_bits / 8;
}
constexpr int block_bytes(const Layout& l) {
  return high_offset(l) + l.block * kLanes * l.high_bits / 8;
}
static_assert(block_bytes(kLayouts[static_cast<int>(Format::kQ4_0)]) == 16 * 18);
static_assert(block_bytes(kLayouts[static_cast<int>(Format::kQ8_0)]) == 16 * 34);
static_assert(block_bytes(kLayouts[static_cast<int>(Format::kQ6_K)]) == 16 * 210);

/// The bit of a byte where the code of half `h` (k = 4h + i) of unit `u` begins, for 2-bit codes
/// and, in bit_shift(), for 1-bit codes.
constexpr int crumb_shift(int u, int h) {
  return 2 * (2 * (u & 1) + h);
}
constexpr int bit_shift(int u, int h) {
  return 2 * (u & 3) + h;
}

/// A packed weight matrix. Rows may come in groups (attention heads) that are padded to whole
/// panels each; padding rows are zero. k is padded with zeros to whole blocks (float types only).
struct PackedMatrix {
  Format format = Format::kF32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t group_rows = 0;
  std::int64_t group_panels = 0;
  std::int64_t panels = 0;
  std::int64_t blocks = 0;  // along k
  std::size_t panel_bytes = 0;
  std::uint8_t* data = nullptr;  // [panels][panel_bytes], 64-byte aligned

  std::size_t bytes() const { return static_cast<std::size_t>(panels) * panel_bytes; }
  const std::uint8_t* panel(std::int64_t p) const {
    return data + static_cast<std::size_t>(p) * panel_bytes;
  }
  /// The first row of a panel; valid_lanes() is the number of its lanes that hold rows.
  std::int64_t first_row(std::int64_t p) const {
    return p / group_panels * group_rows + p % group_panels * kLanes;
  }
  int valid_lanes(std::int64_t p) const {
    const std::int64_t left = group_rows - p % group_panels * kLanes;
    return static_cast<int>(left < kLanes ? left : kLanes);
  }
};

/// The packed format of a tensor type; nullopt: no kernel multiplies with that type.
std::optional<Format> format_of(gguf::TensorType type);

/// The geometry of a matrix, without memory. group_rows = rows for plain matrices.
PackedMatrix packed_geometry(Format format, std::int64_t rows, std::int64_t cols,
                             std::int64_t group_rows);

}  // namespace holdfast::cpu
