#include <array>
#include <cstdint>
#include <cstring>

#include "control/store/store.h"

namespace holdfast::store {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // Castagnoli, reflected

consteval std::array<std::array<std::uint32_t, 256>, 8> make_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    t[0][i] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t i = 0; i < 256; ++i) {
      t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xff];
    }
  }
  return t;
}
constexpr auto kTables = make_tables();

#ifdef __x86_64__
/// Uses the processor's CRC-32C instruction.
[[gnu::target("sse4.2")]] std::uint32_t crc32c_sse42(std::string_view bytes, std::uint32_t seed) {
  std::uint64_t crc = ~seed;
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    crc = __builtin_ia32_crc32di(crc, word);
  }
  auto last = static_cast<std::uint32_t>(crc);
  for (; left > 0; --left, ++at) {
    last = __builtin_ia32_crc32qi(last, static_cast<unsigned char>(*at));
  }
  return ~last;
}
#endif

}  // namespace

std::uint32_t crc32c(std::string_view bytes, std::uint32_t seed) {
#ifdef __x86_64__
  static const bool kInstruction = __builtin_cpu_supports("sse4.2") != 0;
  if (kInstruction) return crc32c_sse42(bytes, seed);
#endif
  return crc32c_by_table(bytes, seed);
}

std::uint32_t crc32c_by_table(std::string_view bytes, std::uint32_t seed) {
  std::uint32_t crc = ~seed;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {  // slicing by eight
    std::uint32_t next = 0;
    std::array<std::uint32_t, 8> b{};
    for (std::size_t k = 0; k < 8; ++k) b[k] = static_cast<unsigned char>(bytes[i + k]);
    crc ^= b[0] | b[1] << 8 | b[2] << 16 | b[3] << 24;
    for (std::size_t k = 0; k < 4; ++k) next ^= kTables[7 - k][(crc >> (8 * k)) & 0xff];
    for (std::size_t k = 4; k < 8; ++k) next ^= kTables[7 - k][b[k]];
    crc = next;
  }
  for (; i < bytes.size(); ++i) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<unsigned char>(bytes[i])) & 0xff];
  }
  return ~crc;
}

}  // namespace holdfast::store
