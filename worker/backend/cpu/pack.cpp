#include "worker/backend/cpu/pack.h"

#include <cstring>

#include "worker/backend/cpu/native.h"

namespace holdfast::cpu {
namespace {

void or_dword(std::uint8_t* plane, int dword, int lane, std::uint32_t bits) {
  std::uint8_t* at = plane + (dword * kLanes + lane) * 4;
  std::uint32_t w = 0;
  std::memcpy(&w, at, 4);
  w |= bits;
  std::memcpy(at, &w, 4);
}

/// Codes of one unit (8 k) of one lane into the planes of a zeroed block. Four codes read as one
/// dword already lie as the planes want them: byte i belongs to k = i (mod 4).
void place_unit(const Layout& l, std::uint8_t* block, int unit, int lane,
                const std::uint8_t* code) {
  constexpr std::uint32_t kEach = 0x01010101;
  std::uint8_t* low = block + low_offset(l);
  std::uint8_t* high = block + high_offset(l);
  if (l.low_bits == 8) {
    for (int half = 0; half < 2; ++half) {
      std::memcpy(low + ((unit * 2 + half) * kLanes + lane) * 4, code + 4 * half, 4);
    }
    return;
  }
  for (int half = 0; half < 2; ++half) {
    std::uint32_t four = 0;
    std::memcpy(&four, code + 4 * half, 4);
    const std::uint32_t top = four >> l.low_bits;
    if (l.low_bits == 4) or_dword(low, unit, lane, (four & 15 * kEach) << (4 * half));
    if (l.low_bits == 2) {
      or_dword(low, unit / 2, lane, (four & 3 * kEach) << crumb_shift(unit, half));
    }
    if (l.high_bits == 1) or_dword(high, unit / 4, lane, (top & kEach) << bit_shift(unit, half));
    if (l.high_bits == 2) {
      or_dword(high, unit / 2, lane, (top & 3 * kEach) << crumb_shift(unit, half));
    }
  }
}

/// Block number `piece` of what a type's block holds.
void place_block(const Layout& l, const Codes& codes, int piece, int lane, std::uint8_t* block) {
  for (int i = 0; i < (l.d_each ? groups_of(l) : 1); ++i) {
    std::memcpy(block + 32 * i + 2 * lane, &codes.d[i], 2);
  }
  if (l.has_m) std::memcpy(block + 32 + 2 * lane, &codes.m, 2);
  for (int g = 0; g < groups_of(l); ++g) {
    if (l.has_scale) block[scale_offset(l) + g * kLanes + lane] = codes.scale[g];
    if (l.has_minimum && !l.nibbles)
      block[minimum_offset(l) + g * kLanes + lane] = codes.minimum[g];
  }
  const std::uint8_t* code = codes.code + piece * l.block;
  for (int u = 0; u < l.block / kUnit; ++u) place_unit(l, block, u, lane, code + u * kUnit);
}

bool float_is_finite(Format format, std::uint32_t bits) {
  if (format == Format::kF32) return (bits & 0x7f800000u) != 0x7f800000u;
  if (format == Format::kF16) return (bits & 0x7c00u) != 0x7c00u;
  return (bits & 0x7f80u) != 0x7f80u;
}

bool pack_float_row(const PackedMatrix& m, const std::uint8_t* src, int lane, std::uint8_t* panel) {
  const int width = layout_of(m.format).low_bits / 8;
  bool finite = true;
  for (std::int64_t k = 0; k < m.cols; ++k) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, src + k * width, static_cast<std::size_t>(width));
    finite = finite && float_is_finite(m.format, bits);
    std::memcpy(panel + (k * kLanes + lane) * width, &bits, static_cast<std::size_t>(width));
  }
  return finite;
}

bool pack_quantised_row(const PackedMatrix& m, gguf::TensorType type, const std::uint8_t* src,
                        int lane, std::uint8_t* panel) {
  const Layout& l = layout_of(m.format);
  const gguf::TypeTraits native = *gguf::type_traits(type);
  const std::int64_t pieces = native.block_elements / static_cast<std::uint32_t>(l.block);
  bool finite = true;
  Codes codes;
  for (std::int64_t b = 0; b < m.blocks; b += pieces) {
    read_block(type, src, codes);
    src += native.block_bytes;
    finite = finite && is_finite(m.format, codes);
    for (std::int64_t i = 0; i < pieces; ++i) {
      place_block(l, codes, static_cast<int>(i), lane, panel + (b + i) * block_bytes(l));
    }
  }
  return finite;
}

}  // namespace

std::int64_t pack_panels(const PackedMatrix& out, gguf::TensorType type, const std::uint8_t* src,
                         std::size_t row_bytes, std::int64_t p0, std::int64_t p1) {
  std::int64_t bad = -1;
  for (std::int64_t p = p0; p < p1; ++p) {
    std::uint8_t* panel = out.data + static_cast<std::size_t>(p) * out.panel_bytes;
    std::memset(panel, 0, out.panel_bytes);
    for (int lane = 0; lane < out.valid_lanes(p); ++lane) {
      const std::int64_t row = out.first_row(p) + lane;
      const std::uint8_t* from = src + static_cast<std::size_t>(row) * row_bytes;
      const bool finite = layout_of(out.format).has_d
                              ? pack_quantised_row(out, type, from, lane, panel)
                              : pack_float_row(out, from, lane, panel);
      if (!finite && bad < 0) bad = row;
    }
  }
  return bad;
}

}  // namespace holdfast::cpu
