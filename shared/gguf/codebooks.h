#pragma once
// The codebooks of the IQ types; codebooks.cpp defines the encoding of an entry.

#include <cstdint>

namespace holdfast::gguf {

extern const std::uint16_t kIq2XxsGrid[256];
extern const std::uint16_t kIq2XsGrid[512];
extern const std::uint16_t kIq2SGrid[1024];
extern const std::uint16_t kIq1Grid[2048];
extern const std::uint16_t kIq3XxsGrid[256];
extern const std::uint16_t kIq3SGrid[512];

}  // namespace holdfast::gguf
