#include "shared/gguf/coded.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "shared/gguf/codebooks.h"
#include "shared/gguf/dequantize.h"
#include "shared/gguf/quants.h"

namespace holdfast::gguf {
namespace {

// IQ1 and IQ2 share one table (in eighths): three magnitudes of either sign, then the three values
// of IQ1 with its shift of +1/8 and of -1/8.
constexpr float kTwoBit[16] = {8 / 8.f,  25 / 8.f, 43 / 8.f, -8 / 8.f, -25 / 8.f, -43 / 8.f,
                               -7 / 8.f, 1 / 8.f,  9 / 8.f,  -9 / 8.f, -1 / 8.f,  7 / 8.f};
constexpr int kOneBitUp = 6;
constexpr int kOneBitDown = 9;
constexpr float kThreeBitXxs[16] = {
    4 / 4.f,  12 / 4.f,  20 / 4.f,  28 / 4.f,  36 / 4.f,  44 / 4.f,  52 / 4.f,  62 / 4.f,
    -4 / 4.f, -12 / 4.f, -20 / 4.f, -28 / 4.f, -36 / 4.f, -44 / 4.f, -52 / 4.f, -62 / 4.f};
constexpr float kThreeBitS[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
constexpr float kFp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr float kTernary[16] = {-1, 0, 1, 2};

constexpr CodedTraits kTwoBit16{256, 16, kTwoBit};
constexpr CodedTraits kTwoBit32{256, 32, kTwoBit};
constexpr CodedTraits kIq3Xxs{256, 32, kThreeBitXxs};
constexpr CodedTraits kIq3S{256, 32, kThreeBitS};
constexpr CodedTraits kMxfp4{32, 32, kFp4};
constexpr CodedTraits kNvfp4{64, 16, kFp4};
constexpr CodedTraits kTernary256{256, 256, kTernary};
constexpr CodedTraits kBinary128{128, 128, kTernary};
constexpr CodedTraits kTernary64{64, 64, kTernary};

template <class T>
T load(const std::uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void set_d(CodedBlock& out, float d) {
  for (float& each : out.d) each = d;
}
void set_scale(CodedBlock& out, int scale) {
  for (std::int8_t& each : out.scale) each = static_cast<std::int8_t>(scale);
}

/// Returns seven signs as bits and an eighth that makes their number even.
unsigned with_parity(unsigned seven) {
  return seven | static_cast<unsigned>(std::popcount(seven) & 1) << 7;
}

/// Writes eight digits of base 3; codes from the fourth on are the negative ones.
void put_eight(unsigned entry, unsigned signs, std::uint8_t* code) {
  for (int i = 0; i < 8; ++i) {
    code[i] = static_cast<std::uint8_t>(entry % 3 + ((signs >> i & 1) != 0 ? 3 : 0));
    entry /= 3;
  }
}
/// Writes four digits of base 8.
void put_four(unsigned entry, unsigned signs, std::uint8_t* code) {
  for (int i = 0; i < 4; ++i) {
    code[i] = static_cast<std::uint8_t>((entry >> (3 * i) & 7) | (signs >> i & 1) << 3);
  }
}

// d: half | for each 32: 4 bytes of entries, then 4 x 7 bits of signs and 4 of scale
void read_iq2_xxs(const std::uint8_t* src, CodedBlock& out) {
  set_d(out, half_to_float(load_u16(src)));
  for (int g = 0; g < 8; ++g) {
    const std::uint8_t* at = src + 2 + 8 * g;
    const auto word = load<std::uint32_t>(at + 4);
    out.scale[g] = static_cast<std::int8_t>(2 * (word >> 28) + 1);
    for (int l = 0; l < 4; ++l) {
      put_eight(kIq2XxsGrid[at[l]], with_parity(word >> (7 * l) & 127), out.code + 32 * g + 8 * l);
    }
  }
}

// d: half | 32 x u16: 9 bits of entry, 7 of signs | 8 bytes: scale of each 16, four bits
void read_iq2_xs(const std::uint8_t* src, CodedBlock& out) {
  set_d(out, half_to_float(load_u16(src)));
  for (int g = 0; g < 16; ++g) {
    out.scale[g] = static_cast<std::int8_t>(2 * (src[66 + g / 2] >> (4 * (g % 2)) & 15) + 1);
  }
  for (int l = 0; l < 32; ++l) {
    const unsigned q = load_u16(src + 2 + 2 * l);
    put_eight(kIq2XsGrid[q & 511], with_parity(q >> 9), out.code + 8 * l);
  }
}

// d: half | 32 bytes of entries | 32 bytes of signs | 8 bytes: two more bits of each entry | 8
// bytes of scales as IQ2_XS
void read_iq2_s(const std::uint8_t* src, CodedBlock& out) {
  set_d(out, half_to_float(load_u16(src)));
  for (int g = 0; g < 16; ++g) {
    out.scale[g] = static_cast<std::int8_t>(2 * (src[74 + g / 2] >> (4 * (g % 2)) & 15) + 1);
  }
  for (int l = 0; l < 32; ++l) {
    const unsigned high = src[66 + l / 4] >> (2 * (l % 4)) & 3;
    put_eight(kIq2SGrid[src[2 + l] | high << 8], src[34 + l], out.code + 8 * l);
  }
}

// d: half | 64 bytes of entries | for each 32: 4 x 7 bits of signs and 4 of scale
void read_iq3_xxs(const std::uint8_t* src, CodedBlock& out) {
  set_d(out, half_to_float(load_u16(src)));
  for (int g = 0; g < 8; ++g) {
    const auto word = load<std::uint32_t>(src + 66 + 4 * g);
    out.scale[g] = static_cast<std::int8_t>(2 * (word >> 28) + 1);
    for (int l = 0; l < 8; ++l) {
      const unsigned signs = with_parity(word >> (7 * (l / 2)) & 127);
      put_four(kIq3XxsGrid[src[2 + 8 * g + l]], signs >> (4 * (l % 2)), out.code + 32 * g + 4 * l);
    }
  }
}

// d: half | 64 bytes of entries | 8 bytes: a ninth bit of each | 32 bytes of signs | 4 bytes: scale
// of each 32, four bits
void read_iq3_s(const std::uint8_t* src, CodedBlock& out) {
  set_d(out, half_to_float(load_u16(src)));
  for (int g = 0; g < 8; ++g) {
    out.scale[g] = static_cast<std::int8_t>(2 * (src[106 + g / 2] >> (4 * (g % 2)) & 15) + 1);
  }
  for (int l = 0; l < 64; ++l) {
    const unsigned high = src[66 + l / 8] >> (l % 8) & 1;
    const unsigned signs = src[74 + l / 2] >> (4 * (l % 2));
    put_four(kIq3SGrid[src[2 + l] | high << 8], signs, out.code + 4 * l);
  }
}

/// Writes eight digits of base 3, shifted up or down by an eighth.
void put_ternary(unsigned entry, bool down, std::uint8_t* code) {
  for (int i = 0; i < 8; ++i) {
    code[i] = static_cast<std::uint8_t>(entry % 3 + (down ? kOneBitDown : kOneBitUp));
    entry /= 3;
  }
}

// d: half | 32 bytes of entries | 8 x u16: 4 x 3 more bits of entries, 3 of scale, 1 of shift
void read_iq1_s(const std::uint8_t* src, CodedBlock& out) {
  set_d(out, half_to_float(load_u16(src)));
  for (int g = 0; g < 8; ++g) {
    const unsigned word = load_u16(src + 34 + 2 * g);
    out.scale[g] = static_cast<std::int8_t>(2 * (word >> 12 & 7) + 1);
    for (int l = 0; l < 4; ++l) {
      const unsigned entry = src[2 + 4 * g + l] | (word >> (3 * l) & 7) << 8;
      put_ternary(kIq1Grid[entry], (word & 0x8000) != 0, out.code + 32 * g + 8 * l);
    }
  }
}

// 32 bytes of entries | 16 bytes: for each entry 3 more bits and 1 of shift | 4 x u16: four scales
// of three bits and four bits of d, the lowest first
void read_iq1_m(const std::uint8_t* src, CodedBlock& out) {
  unsigned d = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned word = load_u16(src + 48 + 2 * i);
    d |= (word >> 12) << (4 * i);
    for (int j = 0; j < 4; ++j) {
      out.scale[4 * i + j] = static_cast<std::int8_t>(2 * (word >> (3 * j) & 7) + 1);
    }
  }
  set_d(out, half_to_float(static_cast<std::uint16_t>(d)));
  for (int l = 0; l < 32; ++l) {
    const unsigned more = src[32 + l / 2] >> (4 * (l % 2)) & 15;
    put_ternary(kIq1Grid[src[l] | (more & 7) << 8], (more & 8) != 0, out.code + 8 * l);
  }
}

// 32 and 16 bytes with five ternary digits each, 4 with four, as fractions of 256 | d: half
void read_tq1_0(const std::uint8_t* src, CodedBlock& out) {
  set_d(out, half_to_float(load_u16(src + 52)));
  set_scale(out, 1);
  const auto digit = [](std::uint8_t byte, int n) {
    for (; n > 0; --n) byte = static_cast<std::uint8_t>(3 * byte);
    return static_cast<std::uint8_t>(3 * byte >> 8);
  };
  for (int i = 0; i < 160; ++i) out.code[i] = digit(src[i % 32], i / 32);
  for (int i = 0; i < 80; ++i) out.code[160 + i] = digit(src[32 + i % 16], i / 16);
  for (int i = 0; i < 16; ++i) out.code[240 + i] = digit(src[48 + i % 4], i / 4);
}

// 64 bytes as Q2_K | d: half
void read_tq2_0(const std::uint8_t* src, CodedBlock& out) {
  set_d(out, half_to_float(load_u16(src + 64)));
  set_scale(out, 1);
  for (int e = 0; e < 256; ++e) {
    out.code[e] = src[e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2) & 3;
  }
}

// exponent + 127 of twice the scale | 16 bytes as Q4_0
void read_mxfp4(const std::uint8_t* src, CodedBlock& out) {
  set_d(out, std::ldexp(1.0f, src[0] - 128));
  set_scale(out, 1);
  for (int i = 0; i < 16; ++i) {
    out.code[i] = src[1 + i] & 15;
    out.code[16 + i] = src[1 + i] >> 4;
  }
}

/// Returns half of an unsigned float of 4 exponent and 3 mantissa bits; the eighth bit is ignored.
float half_of_e4m3(std::uint8_t byte) {
  const int exponent = byte >> 3 & 15;
  const int mantissa = byte & 7;
  if (byte == 0 || byte == 0x7f) return 0;
  if (exponent == 0) return std::ldexp(static_cast<float>(mantissa), -10);
  return std::ldexp(static_cast<float>(8 + mantissa), exponent - 11);
}

// 4 bytes: scale of each 16 | for each 16: 8 bytes, low nibbles first
void read_nvfp4(const std::uint8_t* src, CodedBlock& out) {
  set_scale(out, 1);
  for (int g = 0; g < 4; ++g) {
    out.d[g] = half_of_e4m3(src[g]);
    for (int i = 0; i < 8; ++i) {
      out.code[16 * g + i] = src[4 + 8 * g + i] & 15;
      out.code[16 * g + 8 + i] = src[4 + 8 * g + i] >> 4;
    }
  }
}

// d: half | a bit for each element: d or -d
void read_q1_0(const std::uint8_t* src, CodedBlock& out) {
  set_d(out, half_to_float(load_u16(src)));
  set_scale(out, 1);
  for (int i = 0; i < 128; ++i) {
    out.code[i] = static_cast<std::uint8_t>((src[2 + i / 8] >> (i % 8) & 1) * 2);
  }
}

// d: half | two bits for each element in order, minus 1
void read_q2_0(const std::uint8_t* src, CodedBlock& out) {
  set_d(out, half_to_float(load_u16(src)));
  set_scale(out, 1);
  for (int i = 0; i < 64; ++i) out.code[i] = src[2 + i / 4] >> (2 * (i % 4)) & 3;
}

struct Row {
  TensorType type;
  const CodedTraits* traits;
  void (*read)(const std::uint8_t*, CodedBlock&);
};
constexpr Row kRows[] = {
    {TensorType::kIQ1_S, &kTwoBit32, read_iq1_s},
    {TensorType::kIQ1_M, &kTwoBit16, read_iq1_m},
    {TensorType::kIQ2_XXS, &kTwoBit32, read_iq2_xxs},
    {TensorType::kIQ2_XS, &kTwoBit16, read_iq2_xs},
    {TensorType::kIQ2_S, &kTwoBit16, read_iq2_s},
    {TensorType::kIQ3_XXS, &kIq3Xxs, read_iq3_xxs},
    {TensorType::kIQ3_S, &kIq3S, read_iq3_s},
    {TensorType::kMXFP4, &kMxfp4, read_mxfp4},
    {TensorType::kNVFP4, &kNvfp4, read_nvfp4},
    {TensorType::kTQ1_0, &kTernary256, read_tq1_0},
    {TensorType::kTQ2_0, &kTernary256, read_tq2_0},
    {TensorType::kQ1_0, &kBinary128, read_q1_0},
    {TensorType::kQ2_0, &kTernary64, read_q2_0},
};

const Row* row_of(TensorType type) {
  for (const Row& row : kRows) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

}  // namespace

const CodedTraits* coded_traits(TensorType type) {
  const Row* row = row_of(type);
  return row ? row->traits : nullptr;
}

void read_coded(TensorType type, const std::uint8_t* src, CodedBlock& out) {
  const Row* row = row_of(type);
  CHECK(row != nullptr);
  row->read(src, out);
}

}  // namespace holdfast::gguf
