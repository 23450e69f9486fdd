#include "worker/weights/pack.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "worker/weights/native.h"

namespace holdfast::cpu {
namespace {

// A panel's lanes are written one after another, so the lines that they share should stay in L1.
constexpr std::int64_t kRun = 2048;  // k

using Span = std::array<std::uint32_t, kSpan / 4>;  // codes, four to a dword

/// Packs bits [kFrom, kFrom + kBits) of a span's codes into one lane of a plane. Four codes read as
/// one dword are in the planes' order already, byte i of k = i (mod 4), so 8 / kBits dwords are
/// shifted into one.
template <int kBits, int kFrom>
void pack_plane(const Span& codes, int lane, std::uint8_t* plane) {
  constexpr std::size_t kTogether = 8 / kBits;
  constexpr std::uint32_t kMask = ((1u << kBits) - 1) * 0x01010101u;
  for (std::size_t i = 0; i < kBits; ++i) {
    std::uint32_t w = 0;
    for (std::size_t j = 0; j < kTogether; ++j) {
      w |= (codes[i * kTogether + j] >> kFrom & kMask) << (kBits * j);
    }
    std::memcpy(plane + (i * kLanes + static_cast<std::size_t>(lane)) * 4, &w, 4);
  }
}

/// Packs block number `sub_block` of a type's block.
template <Format kFormat>
void pack_block(const Codes& codes, int sub_block, int lane, std::uint8_t* block) {
  constexpr Layout kLayout = layout_of(kFormat);
  constexpr int kGroups = groups_of(kLayout);
  for (int i = 0; i < (kLayout.d_each ? kGroups : 1); ++i) {
    std::memcpy(block + 32 * i + 2 * lane, &codes.d[i], 2);
  }
  if constexpr (kLayout.has_m) std::memcpy(block + 32 + 2 * lane, &codes.m, 2);
  for (int g = 0; g < kGroups; ++g) {
    if constexpr (kLayout.has_scale) {
      block[scale_offset(kLayout) + g * kLanes + lane] = codes.scale[g];
    }
    if constexpr (kLayout.has_minimum && !kLayout.nibbles) {
      block[minimum_offset(kLayout) + g * kLanes + lane] = codes.minimum[g];
    }
  }
  constexpr int kBit = kSpan * kLanes / 8;  // bytes of a plane for one bit of a span's codes
  for (int s = 0; s < kLayout.block / kSpan; ++s) {
    Span span;
    std::memcpy(span.data(), codes.code + sub_block * kLayout.block + s * kSpan, kSpan);
    pack_plane<kLayout.low_bits, 0>(span, lane,
                                    block + low_offset(kLayout) + s * kLayout.low_bits * kBit);
    if constexpr (kLayout.high_bits > 0) {
      pack_plane<kLayout.high_bits, kLayout.low_bits>(
          span, lane, block + high_offset(kLayout) + s * kLayout.high_bits * kBit);
    }
  }
}

/// Packs values [k0, k1) of a row of floats. kMost: the exponent's bits; all ones is a NaN or
/// infinity. False: there is such a value.
template <typename T, T kMost>
bool pack_floats(const std::uint8_t* row, std::int64_t k0, std::int64_t k1, int lane,
                 std::uint8_t* panel) {
  bool finite = true;
  for (std::int64_t k = k0; k < k1; ++k) {
    T bits;
    std::memcpy(&bits, row + k * static_cast<std::int64_t>(sizeof bits), sizeof bits);
    finite = finite & ((bits & kMost) != kMost);
    std::memcpy(panel + (k * kLanes + lane) * static_cast<std::int64_t>(sizeof bits), &bits,
                sizeof bits);
  }
  return finite;
}

/// Packs columns [k0, k1) of the row that starts at `row`, whole blocks of the type. False: there
/// is a NaN or infinity among them.
template <Format kFormat>
bool pack_row(gguf::TensorType type, const std::uint8_t* row, std::int64_t k0, std::int64_t k1,
              int lane, std::uint8_t* panel) {
  if constexpr (kFormat == Format::kF32) {
    return pack_floats<std::uint32_t, 0x7f800000>(row, k0, k1, lane, panel);
  } else if constexpr (kFormat == Format::kF16) {
    return pack_floats<std::uint16_t, 0x7c00>(row, k0, k1, lane, panel);
  } else if constexpr (kFormat == Format::kBF16) {
    return pack_floats<std::uint16_t, 0x7f80>(row, k0, k1, lane, panel);
  } else {
    constexpr Layout kLayout = layout_of(kFormat);
    const gguf::TypeTraits native = *gguf::type_traits(type);
    const auto elements = static_cast<std::int64_t>(native.block_elements);
    const int sub_blocks = static_cast<int>(elements) / kLayout.block;
    const std::uint8_t* src = row + k0 / elements * native.block_bytes;
    std::uint8_t* block = panel + k0 / kLayout.block * block_bytes(kLayout);
    bool finite = true;
    Codes codes;
    for (std::int64_t k = k0; k < k1; k += elements, src += native.block_bytes) {
      read_block(type, src, codes);
      finite = finite & is_finite(kFormat, codes);
      for (int i = 0; i < sub_blocks; ++i, block += block_bytes(kLayout)) {
        pack_block<kFormat>(codes, i, lane, block);
      }
    }
    return finite;
  }
}

using PackRow = bool (*)(gguf::TensorType, const std::uint8_t*, std::int64_t, std::int64_t, int,
                         std::uint8_t*);
template <std::size_t... kFormats>
constexpr auto functions_of(std::index_sequence<kFormats...>) {
  return std::array<PackRow, sizeof...(kFormats)>{pack_row<static_cast<Format>(kFormats)>...};
}
constexpr auto kPackRow =
    functions_of(std::make_index_sequence<static_cast<std::size_t>(Format::kCount)>());

/// Clears the bytes that no row of the file fills: lanes beyond the group's rows, k beyond the
/// columns, and the end of the last line. The memory may hold older data.
void clear_padding(const PackedMatrix& m, int lanes, std::uint8_t* panel) {
  const Layout& l = layout_of(m.format);
  const bool whole = lanes == kLanes && m.cols == m.blocks * l.block;
  const std::size_t used =
      whole ? static_cast<std::size_t>(m.blocks) * static_cast<std::size_t>(block_bytes(l)) : 0;
  std::memset(panel + used, 0, m.panel_bytes - used);
}

}  // namespace

std::int64_t pack_panels(const PackedMatrix& out, gguf::TensorType type, const std::uint8_t* src,
                         std::size_t row_bytes, std::int64_t p0, std::int64_t p1) {
  const PackRow pack_row = kPackRow[static_cast<std::size_t>(out.format)];
  std::int64_t bad = -1;
  for (std::int64_t p = p0; p < p1; ++p) {
    std::uint8_t* panel = out.data + static_cast<std::size_t>(p) * out.panel_bytes;
    const int lanes = out.valid_lanes(p);
    clear_padding(out, lanes, panel);
    std::int64_t first = kLanes;  // lane that is not finite
    for (std::int64_t k = 0; k < out.cols; k += kRun) {
      const std::int64_t end = std::min(k + kRun, out.cols);
      for (int lane = 0; lane < lanes; ++lane) {
        const auto row = static_cast<std::size_t>(out.first_row(p) + lane);
        const bool finite = pack_row(type, src + row * row_bytes, k, end, lane, panel);
        if (!finite) first = std::min<std::int64_t>(first, lane);
      }
    }
    if (first < kLanes && bad < 0) bad = out.first_row(p) + first;
  }
  return bad;
}

}  // namespace holdfast::cpu
