#include "bench/device_probe_run/q4k.h"

#include <cstring>

#include "bench/device_probe_run/random.h"

namespace holdfast::bench::probe {
namespace {

constexpr std::size_t kLanes = 32;  // of a warp

void put_word(std::uint8_t* to, std::uint32_t word) {
  std::memcpy(to, &word, sizeof word);
}

}  // namespace

Panel::Panel(std::size_t k, std::uint64_t seed)
    : k(k),
      codes(kPanelRows * k),
      scales(kPanelRows * k / kGroupK),
      minima(scales.size()),
      d(kPanelRows * k / kBlockK),
      dmin(d.size()) {
  Random random(seed);
  for (std::uint8_t& v : codes) v = static_cast<std::uint8_t>(random.below(16));
  for (std::uint8_t& v : scales) v = static_cast<std::uint8_t>(random.below(64));
  for (std::uint8_t& v : minima) v = static_cast<std::uint8_t>(random.below(64));
  for (Half& v : d) v = half_of(2e-4f + 1e-6f * static_cast<float>(random.below(100)));
  for (Half& v : dmin) v = half_of(1.5e-3f + 1e-5f * static_cast<float>(random.below(100)));
}

double Panel::weight(std::size_t row, std::size_t at) const {
  const std::size_t group = row * (k / kGroupK) + at / kGroupK;
  const std::size_t block = row * (k / kBlockK) + at / kBlockK;
  return static_cast<double>(float_of(d[block])) * scales[group] * code(row, at) -
         static_cast<double>(float_of(dmin[block])) * minima[group];
}

void Panel::put_packed(std::size_t block, std::uint8_t* to) const {
  for (std::size_t row = 0; row < kPanelRows; ++row) {
    const std::size_t block_at = row * (k / kBlockK) + block;
    std::memcpy(to + row * 2, &d[block_at], 2);
    std::memcpy(to + 32 + row * 2, &dmin[block_at], 2);
    for (std::size_t group = 0; group < kGroups; ++group) {
      const std::size_t at = row * (k / kGroupK) + block * kGroups + group;
      to[64 + group * 16 + row] = scales[at];
      to[192 + group * 16 + row] = minima[at];
    }
    for (std::size_t unit = 0; unit < kBlockK / 8; ++unit) {
      std::uint32_t word = 0;
      for (std::size_t i = 0; i < 4; ++i) {
        const std::size_t at = block * kBlockK + unit * 8 + i;
        word |= code(row, at) << (8 * i) | code(row, at + 4) << (8 * i + 4);
      }
      put_word(to + 320 + (unit * 16 + row) * 4, word);
    }
  }
}

void Panel::put_fragments(std::size_t block, std::uint8_t* to) const {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const std::size_t g = lane / 4, t = lane % 4;
    for (std::size_t word_at = 0; word_at < 16; ++word_at) {  // of 16 k each
      const std::size_t first = block * kBlockK + word_at * 16;
      std::uint32_t word = 0;
      for (std::size_t i = 0; i < 4; ++i) {
        const std::size_t row = g + i % 2 * 8, at = first + 2 * t + i / 2 * 8;
        word |= code(row, at) << (4 * i) | code(row, at + 1) << (4 * i + 16);
      }
      put_word(to + word_at / 4 * 512 + lane * 16 + word_at % 4 * 4, word);
    }
  }
  for (std::size_t row = 0; row < kPanelRows; ++row) {
    for (std::size_t group = 0; group < kGroups; ++group) {
      const std::size_t at = row * (k / kGroupK) + block * kGroups + group;
      to[2048 + row * 16 + group * 2] = scales[at];
      to[2048 + row * 16 + group * 2 + 1] = minima[at];
    }
    const std::size_t at = row * (k / kBlockK) + block;
    put_word(to + 2304 + row * 4, d[at] | static_cast<std::uint32_t>(dmin[at] ^ 0x8000) << 16);
  }
}

std::vector<std::uint8_t> Panel::bytes(Order order) const {
  std::vector<std::uint8_t> out(k / kBlockK * kBlockBytes);
  for (std::size_t block = 0; block < k / kBlockK; ++block) {
    std::uint8_t* const to = out.data() + block * kBlockBytes;
    if (order == Order::kPacked) {
      put_packed(block, to);
    } else {
      put_fragments(block, to);
    }
  }
  return out;
}

}  // namespace holdfast::bench::probe
