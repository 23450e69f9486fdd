#pragma once
// Random numbers as a function: the number of a token depends on nothing but the request's seed,
// its choice and the token's index, so it is the same after any restart, on any worker.

#include <array>
#include <cstdint>

namespace holdfast::engine {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). Pure.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

/// The purpose of a random number; numbers of different purposes are independent. Values are part
/// of the numerics contract and never change.
enum class RandomPurpose : std::uint32_t { kSample = 0, kFake = 1, kNeighbour = 2, kXtc = 3 };

/// 64 random bits of (seed, choice, index, purpose).
std::uint64_t random_bits(std::uint64_t seed, std::int32_t choice, std::int64_t index,
                          RandomPurpose purpose);

/// A number in [0, 1), a multiple of 2^-53, of (seed, choice, index, purpose).
double random_unit(std::uint64_t seed, std::int32_t choice, std::int64_t index,
                   RandomPurpose purpose);

}  // namespace holdfast::engine
