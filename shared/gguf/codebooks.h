#pragma once
// The codebooks of the IQ types; codebooks.cpp says how an entry is encoded.

#include <cstdint>

namespace holdfast::gguf {

extern const std::uint16_t kIq2XxsBook[256];
extern const std::uint16_t kIq2XsBook[512];
extern const std::uint16_t kIq2SBook[1024];
extern const std::uint16_t kIq1Book[2048];
extern const std::uint16_t kIq3XxsBook[256];
extern const std::uint16_t kIq3SBook[512];

}  // namespace holdfast::gguf
