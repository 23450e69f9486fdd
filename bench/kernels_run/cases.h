#pragma once
// Single kernels of every family that runs here, as cases of Google Benchmark. Each is compared
// with the scalar family once before it is timed; a wrong kernel is an error and gets no time.

#include <cmath>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "worker/backend/cpu/family.h"
#include "worker/backend/cpu/kernels.h"

namespace holdfast::bench {

std::vector<const cpu::Kernels*> runnable_kernels();

/// True if a family's results agree with the scalar family's: the same bits in its numerics class,
/// else within 1 % of their length (the project's bound on logits).
inline bool agrees(const cpu::Kernels& kernels, const std::vector<float>& got,
                   const std::vector<float>& expected) {
  if (std::string_view(kernels.numerics) == cpu::scalar_kernels().numerics) return got == expected;
  double error = 0;
  double length = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double{got[i]} - expected[i], 2);
    length += std::pow(double{expected[i]}, 2);
  }
  return error <= 1e-4 * length;
}

/// Values distributed like activations: normal, without subnormals, which cost time.
inline std::vector<float> normal_values(std::int64_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> value(0, 1);
  std::vector<float> out(static_cast<std::size_t>(n));
  for (float& v : out) v = value(random);
  return out;
}

void register_products();   // weights of 4,864 x 1,024 by 1 to 512 rows: GFLOP/s, bytes of weights
void register_attention();  // a token, or 32, after a context: GB/s of keys and values
void register_rows();       // norms, activation, quantizing of rows: GB/s
void register_sampling();   // a token of 151,936: the engine's sampler, no family

}  // namespace holdfast::bench
