#include "worker/weights/native.h"

#include <cstring>

#include "shared/base/check.h"
#include "shared/gguf/coded.h"
#include "shared/gguf/quants.h"

namespace holdfast::cpu {
namespace {

std::uint16_t half_at(const std::uint8_t* p) {
  return static_cast<std::uint16_t>(p[0] | p[1] << 8);
}

// Eight codes lie in one word, a byte each, and are decoded together.
constexpr std::uint64_t kEach = 0x0101010101010101;

std::uint64_t eight_at(const std::uint8_t* p) {
  std::uint64_t w = 0;
  std::memcpy(&w, p, 8);
  return w;
}

/// code[i] = src[i] >> shift & mask; n is a multiple of 8.
void take_bits(const std::uint8_t* src, int n, int shift, unsigned mask, std::uint8_t* code) {
  for (int i = 0; i < n; i += 8) {
    const std::uint64_t w = eight_at(src + i) >> shift & mask * kEach;
    std::memcpy(code + i, &w, 8);
  }
}

/// code[i] |= (src[i] >> shift & mask) << to.
void add_bits(const std::uint8_t* src, int n, int shift, unsigned mask, int to,
              std::uint8_t* code) {
  for (int i = 0; i < n; i += 8) {
    const std::uint64_t w = eight_at(code + i) | (eight_at(src + i) >> shift & mask * kEach) << to;
    std::memcpy(code + i, &w, 8);
  }
}

// Low nibbles are elements 0..n, high nibbles n..2n.
void nibble_halves(const std::uint8_t* q, int n, std::uint8_t* code) {
  take_bits(q, n, 0, 15, code);
  take_bits(q, n, 4, 15, code + n);
}

/// Sets bit 4 of code i to bit i of 32. Each source byte is repeated in all eight bytes of a word,
/// each of these masks one bit, and an addition carries that bit, whichever it is, to the top.
void fifth_bits(const std::uint8_t* src, std::uint8_t* code) {
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t fifth = src[i] * kEach & 0x8040201008040201;
    const std::uint64_t w = eight_at(code + 8 * i) | ((fifth + 0x7f * kEach) & 0x80 * kEach) >> 3;
    std::memcpy(code + 8 * i, &w, 8);
  }
}

// The 12 bytes of Q4_K and Q5_K: eight 6-bit scales and eight 6-bit minima.
void k4_scales(const std::uint8_t* s, Codes& out) {
  for (int j = 0; j < 4; ++j) {
    out.scale[j] = s[j] & 63;
    out.minimum[j] = s[j + 4] & 63;
    out.scale[j + 4] = static_cast<std::uint8_t>((s[j + 8] & 15) | (s[j] >> 6) << 4);
    out.minimum[j + 4] = static_cast<std::uint8_t>((s[j + 8] >> 4) | (s[j + 4] >> 6) << 4);
  }
}

void read_q2_k(const std::uint8_t* src, Codes& out) {
  const std::uint8_t* q = src + 16;
  std::memcpy(out.scale, src, 16);  // scale | minimum << 4, as packed
  for (int j = 0; j < 8; ++j) take_bits(q + j / 4 * 32, 32, j % 4 * 2, 3, out.code + 32 * j);
  out.d[0] = half_at(src + 80);
  out.m = half_at(src + 82);
}

void read_q3_k(const std::uint8_t* src, Codes& out) {
  const std::uint8_t* mask = src;
  const std::uint8_t* q = src + 32;
  const std::uint8_t* s = src + 96;
  for (int j = 0; j < 8; ++j) {
    take_bits(q + j / 4 * 32, 32, j % 4 * 2, 3, out.code + 32 * j);
    add_bits(mask, 32, j, 1, 2, out.code + 32 * j);
  }
  for (int i = 0; i < 16; ++i) {
    const int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4;
    const int high = s[8 + i % 4] >> (i / 4 * 2) & 3;
    out.scale[i] = static_cast<std::uint8_t>((low | high << 4) - 32);
  }
  out.d[0] = half_at(src + 108);
}

void read_q4_k(const std::uint8_t* src, Codes& out) {
  out.d[0] = half_at(src);
  out.m = half_at(src + 2);
  k4_scales(src + 4, out);
  for (int j = 0; j < 4; ++j) nibble_halves(src + 16 + 32 * j, 32, out.code + 64 * j);
}

void read_q5_k(const std::uint8_t* src, Codes& out) {
  out.d[0] = half_at(src);
  out.m = half_at(src + 2);
  k4_scales(src + 4, out);
  const std::uint8_t* high = src + 16;
  for (int j = 0; j < 4; ++j) nibble_halves(src + 48 + 32 * j, 32, out.code + 64 * j);
  for (int j = 0; j < 8; ++j) add_bits(high, 32, j, 1, 4, out.code + 32 * j);
}

void read_q6_k(const std::uint8_t* src, Codes& out) {
  for (int j = 0; j < 8; ++j) {
    const int quarter = j % 4;
    const std::uint8_t* low = src + 64 * (j / 4) + quarter % 2 * 32;
    const std::uint8_t* high = src + 128 + 32 * (j / 4);
    take_bits(low, 32, quarter / 2 * 4, 15, out.code + 32 * j);
    add_bits(high, 32, 2 * quarter, 3, 4, out.code + 32 * j);
  }
  std::memcpy(out.scale, src + 192, 16);
  out.d[0] = half_at(src + 208);
}

void read_iq4_xs(const std::uint8_t* src, Codes& out) {
  out.d[0] = half_at(src);
  const std::uint16_t high = half_at(src + 2);
  for (int i = 0; i < 8; ++i) {
    const int low = src[4 + i / 2] >> (4 * (i % 2)) & 15;
    out.scale[i] = static_cast<std::uint8_t>((low | (high >> (2 * i) & 3) << 4) - 32);
    nibble_halves(src + 8 + 16 * i, 16, out.code + 32 * i);
  }
}

/// Decodes types with tables of values; scales go to the layout's groups, which may be smaller.
void read_coded_block(gguf::TensorType type, const std::uint8_t* src, Codes& out) {
  const gguf::CodedTraits* traits = gguf::coded_traits(type);
  CHECK_MSG(traits != nullptr, "read_block: not a quantised type");
  const Layout& layout = layout_of(*format_of(type));
  gguf::CodedBlock block;
  gguf::read_coded(type, src, block);
  for (int i = 0; i < (layout.d_each ? groups_of(layout) : 1); ++i) {
    out.d[i] = layout.d_bf16 ? gguf::float_to_bf16(block.d[i]) : gguf::float_to_half(block.d[i]);
  }
  for (int g = 0; layout.has_scale && g < groups_of(layout); ++g) {
    out.scale[g] = static_cast<std::uint8_t>(block.scale[g * layout.group / traits->group]);
  }
  std::memcpy(out.code, block.code, static_cast<std::size_t>(traits->elements));
}

}  // namespace

void read_block(gguf::TensorType type, const std::uint8_t* src, Codes& out) {
  using T = gguf::TensorType;
  switch (type) {
    case T::kQ4_0:
    case T::kIQ4_NL:
      out.d[0] = half_at(src);
      return nibble_halves(src + 2, 16, out.code);
    case T::kQ4_1:
      out.d[0] = half_at(src);
      out.m = half_at(src + 2);
      return nibble_halves(src + 4, 16, out.code);
    case T::kQ5_0:
      out.d[0] = half_at(src);
      nibble_halves(src + 6, 16, out.code);
      return fifth_bits(src + 2, out.code);
    case T::kQ5_1:
      out.d[0] = half_at(src);
      out.m = half_at(src + 2);
      nibble_halves(src + 8, 16, out.code);
      return fifth_bits(src + 4, out.code);
    case T::kQ8_0:
      out.d[0] = half_at(src);
      std::memcpy(out.code, src + 2, 32);
      return;
    case T::kQ2_K:
      return read_q2_k(src, out);
    case T::kQ3_K:
      return read_q3_k(src, out);
    case T::kQ4_K:
      return read_q4_k(src, out);
    case T::kQ5_K:
      return read_q5_k(src, out);
    case T::kQ6_K:
      return read_q6_k(src, out);
    case T::kIQ4_XS:
      return read_iq4_xs(src, out);
    default:
      return read_coded_block(type, src, out);
  }
}

bool is_finite(Format format, const Codes& codes) {
  const Layout& layout = layout_of(format);
  const std::uint16_t most = layout.d_bf16 ? 0x7f80 : 0x7c00;
  bool finite = !layout.has_m || (codes.m & 0x7c00) != 0x7c00;
  for (int i = 0; i < (layout.d_each ? groups_of(layout) : 1); ++i) {
    finite = finite && (codes.d[i] & most) != most;
  }
  return finite;
}

}  // namespace holdfast::cpu
