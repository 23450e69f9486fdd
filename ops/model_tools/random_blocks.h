#pragma once
// Random weights written straight as blocks: random quants under scales that give the wanted
// spread. Much faster than quantising floats, and every block is one that a quantizer could write.

#include <cstdint>
#include <functional>
#include <string_view>

#include "shared/gguf/gguf.h"

namespace holdfast::cli {

/// xoshiro256++ (Blackman and Vigna), seeded through splitmix64 from (seed, name).
class FastRandom {
 public:
  FastRandom(std::uint64_t seed, std::string_view name);
  std::uint64_t next();
  /// Standard normal to 16 bits of resolution.
  float normal();

 private:
  std::uint64_t state_[4];
};

/// Gives `sink` the whole tensor of `elements` values with mean 0 and standard deviation `sigma`.
/// CHECKs that the type is one that `synth` offers.
Result<void> random_tensor(gguf::TensorType type, std::uint64_t elements, float sigma,
                           FastRandom& random, const std::function<Result<void>(ByteSpan)>& sink);

/// Gives `sink` `elements` float32 values: mean + sigma x normal.
Result<void> random_vector(std::uint64_t elements, float mean, float sigma, FastRandom& random,
                           const std::function<Result<void>(ByteSpan)>& sink);

}  // namespace holdfast::cli
