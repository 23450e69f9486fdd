// The formats with blocks of 256: the K-quants and IQ4_XS.

#include "shared/gguf/dequantize.h"
#include "shared/gguf/quants.h"

namespace holdfast::gguf {
namespace {

float half_at(const std::uint8_t* at) {
  return half_to_float(load_u16(at));
}

struct ScaleMin {
  int scale;
  int min;
};

/// Unpacks eight 6-bit scales and eight 6-bit minima of Q4_K and Q5_K from 12 bytes: bytes 0-3 hold
/// scales 0-3, bytes 4-7 minima 0-3 in their low six bits; bytes 8-11 hold the low four bits of
/// scales 4-7 (low nibble) and minima 4-7 (high nibble), whose top two bits are the top two bits of
/// bytes 0-3 and 4-7.
ScaleMin scale_min(const std::uint8_t* packed, int j) {
  if (j < 4) return {packed[j] & 63, packed[j + 4] & 63};
  return {(packed[j + 4] & 0xf) | (packed[j - 4] >> 6) << 4, (packed[j + 4] >> 4) | (packed[j] >> 6)
                                                                                        << 4};
}

}  // namespace

// 16 bytes: scale (low nibble) and minimum (high) of each 16 elements | 64 bytes: 2 bits each |
// d, dmin: half. Byte b of a half (32 bytes, 128 elements) holds elements b, b+32, b+64, b+96.
void block_q2_k(const std::uint8_t* block, float* out) {
  const std::uint8_t* scales = block;
  const std::uint8_t* q = block + 16;
  const float d = half_at(block + 80);
  const float dmin = half_at(block + 82);
  for (int e = 0; e < 256; ++e) {
    const int half = e / 128;
    const int shift = e % 128 / 32 * 2;
    const int value = (q[half * 32 + e % 32] >> shift) & 3;
    const std::uint8_t packed = scales[e / 16];
    const float scale = d * static_cast<float>(packed & 0xf);
    const float minimum = dmin * static_cast<float>(packed >> 4);
    out[e] = scale * static_cast<float>(value) - minimum;
  }
}

// 32 bytes: bit e / 32 of byte e % 32 set = add nothing, clear = subtract 4 | 64 bytes as Q2_K |
// 12 bytes: sixteen 6-bit scales + 32 | d: half
void block_q3_k(const std::uint8_t* block, float* out) {
  const std::uint8_t* high = block;
  const std::uint8_t* q = block + 32;
  const std::uint8_t* packed = block + 96;
  const float d = half_at(block + 108);
  float scales[16];
  for (int j = 0; j < 16; ++j) {
    // Low four bits: nibbles of bytes 0-7. High two: bytes 8-11, two bits for each group of four.
    const int low = j < 8 ? packed[j] & 0xf : packed[j - 8] >> 4;
    const int top = (packed[8 + j % 4] >> (2 * (j / 4))) & 3;
    scales[j] = d * static_cast<float>((low | top << 4) - 32);
  }
  for (int e = 0; e < 256; ++e) {
    const int shift = e % 128 / 32 * 2;
    const int low = (q[e / 128 * 32 + e % 32] >> shift) & 3;
    const int value = (high[e % 32] >> (e / 32)) & 1 ? low : low - 4;
    out[e] = scales[e / 16] * static_cast<float>(value);
  }
}

// d, dmin: half | 12 bytes of scales and minima for each 32 | 128 bytes: of each 32 bytes the low
// nibbles are 32 elements, the high nibbles the next 32
void block_q4_k(const std::uint8_t* block, float* out) {
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  const std::uint8_t* q = block + 16;
  for (int j = 0; j < 8; ++j) {
    const ScaleMin s = scale_min(block + 4, j);
    const float scale = d * static_cast<float>(s.scale);
    const float minimum = dmin * static_cast<float>(s.min);
    for (int l = 0; l < 32; ++l) {
      const int value = (q[j / 2 * 32 + l] >> (j % 2 * 4)) & 0xf;
      out[j * 32 + l] = scale * static_cast<float>(value) - minimum;
    }
  }
}

// d, dmin: half | 12 bytes as Q4_K | 32 bytes: bit j of byte l is the fifth bit of element 32 j + l
// | 128 bytes as Q4_K
void block_q5_k(const std::uint8_t* block, float* out) {
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  const std::uint8_t* high = block + 16;
  const std::uint8_t* q = block + 48;
  for (int j = 0; j < 8; ++j) {
    const ScaleMin s = scale_min(block + 4, j);
    const float scale = d * static_cast<float>(s.scale);
    const float minimum = dmin * static_cast<float>(s.min);
    for (int l = 0; l < 32; ++l) {
      const int low = (q[j / 2 * 32 + l] >> (j % 2 * 4)) & 0xf;
      const int value = low | ((high[l] >> j) & 1) << 4;
      out[j * 32 + l] = scale * static_cast<float>(value) - minimum;
    }
  }
}

// 128 bytes: low four bits | 64 bytes: high two bits | 16 x i8 scale of each 16 | d: half.
// In a half of 128 elements: ql bytes 0-63 hold elements 0-63 low, 64-127 high; qh byte l holds
// elements l, l+32, l+64, l+96. d * scale * (q - 32)
void block_q6_k(const std::uint8_t* block, float* out) {
  const float d = half_at(block + 208);
  for (int e = 0; e < 256; ++e) {
    const int half = e / 128;
    const int in_half = e % 128;
    const int low = (block[half * 64 + in_half % 64] >> (in_half / 64 * 4)) & 0xf;
    const int high = (block[128 + half * 32 + in_half % 32] >> (in_half / 32 * 2)) & 3;
    const auto scale = static_cast<std::int8_t>(block[192 + e / 16]);
    out[e] = d * static_cast<float>(scale) * static_cast<float>((low | high << 4) - 32);
  }
}

// d: half | u16: high two bits of eight scales | 4 bytes: their low four bits | 128 bytes: of each
// 16 bytes the low nibbles are 16 elements, the high nibbles the next 16
void block_iq4_xs(const std::uint8_t* block, float* out) {
  const float d = half_at(block);
  const std::uint16_t high = load_u16(block + 2);
  const std::uint8_t* low = block + 4;
  const std::uint8_t* q = block + 8;
  for (int j = 0; j < 8; ++j) {
    const int scale = ((low[j / 2] >> (j % 2 * 4)) & 0xf) | ((high >> (2 * j)) & 3) << 4;
    const float dl = d * static_cast<float>(scale - 32);
    for (int l = 0; l < 16; ++l) {
      out[j * 32 + l] = dl * static_cast<float>(kIq4Values[q[j * 16 + l] & 0xf]);
      out[j * 32 + l + 16] = dl * static_cast<float>(kIq4Values[q[j * 16 + l] >> 4]);
    }
  }
}

}  // namespace holdfast::gguf
