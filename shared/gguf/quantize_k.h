#pragma once
// Quantises float32 to blocks of 256: the K-quants and IQ4_XS. Internal to shared/gguf.

#include <cstdint>
#include <cstring>

namespace holdfast::gguf {

/// Each function converts x[256] to one block at `out`.
void to_q2_k(const float* x, std::uint8_t* out);
void to_q3_k(const float* x, std::uint8_t* out);
void to_q4_k(const float* x, std::uint8_t* out);
void to_q5_k(const float* x, std::uint8_t* out);
void to_q6_k(const float* x, std::uint8_t* out);
void to_iq4_xs(const float* x, std::uint8_t* out);

/// Writes a little-endian number at any address.
inline void put_u16(std::uint8_t* at, std::uint16_t value) {
  std::memcpy(at, &value, sizeof value);
}

}  // namespace holdfast::gguf
