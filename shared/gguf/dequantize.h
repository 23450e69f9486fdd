#pragma once
// Converts one block of each format to float32; the layouts are written at the functions that read
// them. Internal to shared/gguf. Source of the layouts: ggml-common.h (format facts).

#include <cstdint>
#include <cstring>

namespace holdfast::gguf {

/// Converts one block. `block` is block_bytes long and need not be aligned; out[block_elements].
using BlockFn = void (*)(const std::uint8_t* block, float* out);

/// The 16 values of IQ4_NL and IQ4_XS.
inline constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

/// Convert one block of the format of that name to float32: 32 values for q4_0 to iq4_nl, 256 for
/// the K-quants and iq4_xs. `block` has the format's block_bytes and needs no alignment.
void block_q4_0(const std::uint8_t* block, float* out);
void block_q4_1(const std::uint8_t* block, float* out);
void block_q5_0(const std::uint8_t* block, float* out);
void block_q5_1(const std::uint8_t* block, float* out);
void block_q8_0(const std::uint8_t* block, float* out);
void block_iq4_nl(const std::uint8_t* block, float* out);
void block_q2_k(const std::uint8_t* block, float* out);
void block_q3_k(const std::uint8_t* block, float* out);
void block_q4_k(const std::uint8_t* block, float* out);
void block_q5_k(const std::uint8_t* block, float* out);
void block_q6_k(const std::uint8_t* block, float* out);
void block_iq4_xs(const std::uint8_t* block, float* out);

/// Reads a little-endian number at any address.
inline std::uint16_t load_u16(const std::uint8_t* at) {
  std::uint16_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace holdfast::gguf
