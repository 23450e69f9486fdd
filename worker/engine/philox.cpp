#include "worker/engine/philox.h"

namespace holdfast::engine {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> c,
                                        std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

std::uint64_t random_bits(std::uint64_t seed, std::int32_t choice, std::int64_t index,
                          RandomPurpose purpose) {
  const auto i = static_cast<std::uint64_t>(index);
  const auto r =
      philox4x32({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
                  static_cast<std::uint32_t>(choice), static_cast<std::uint32_t>(purpose)},
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return (std::uint64_t{r[0]} << 32) | r[1];
}

double random_unit(std::uint64_t seed, std::int32_t choice, std::int64_t index,
                   RandomPurpose purpose) {
  return static_cast<double>(random_bits(seed, choice, index, purpose) >> 11) * 0x1p-53;
}

}  // namespace holdfast::engine
