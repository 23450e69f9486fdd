#include "ops/model_tools/random_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "shared/gguf/dequantize.h"
#include "shared/gguf/quants.h"

namespace holdfast::cli {
namespace {

using gguf::TensorType;

constexpr std::size_t kNormals = 65536;
constexpr std::size_t kChunkBytes = 1u << 20;

/// Quantiles of the standard normal at (i + 0.5) / 65536, by Newton's method along the table.
const std::vector<float>& normals() {
  static const std::vector<float> table = [] {
    std::vector<float> out(kNormals);
    double x = 0;
    for (std::size_t i = kNormals / 2; i < kNormals; ++i) {
      const double p = (static_cast<double>(i) + 0.5) / static_cast<double>(kNormals);
      for (int step = 0; step < 8; ++step) {
        const double below = 1 - 0.5 * std::erfc(x / std::sqrt(2.0));
        x += (p - below) * std::sqrt(2 * M_PI) * std::exp(x * x / 2);
      }
      out[i] = static_cast<float>(x);
      out[kNormals - 1 - i] = -out[i];
    }
    return out;
  }();
  return table;
}

void put_half(std::uint8_t* at, float value) {
  const std::uint16_t h = gguf::float_to_half(value);
  std::memcpy(at, &h, sizeof h);
}
float get_half(const std::uint8_t* at) {
  return gguf::half_to_float(gguf::load_u16(at));
}

/// Root mean square of a uniform integer in [first, last].
double rms(int first, int last) {
  double sum = 0;
  for (int i = first; i <= last; ++i) sum += i * i;
  return std::sqrt(sum / (last - first + 1));
}

/// Varies a scale from block to block by a factor in [0.75, 1.25), and in sign where the format
/// allows it: the quants' own mean (-0.5 for Q4_0) then cancels.
float varied(float scale, std::uint64_t bits, bool either_sign) {
  const float factor = 0.75f + static_cast<float>(bits & 0xffff) / 131072.0f;
  return scale * factor * (either_sign && (bits & 0x10000) ? -1.0f : 1.0f);
}

/// Writes 6-bit scales 32..63 that are their own minima, in the packing of Q4_K and Q5_K.
void put_scales_k4(std::uint8_t* packed, std::uint64_t bits) {
  std::uint8_t scale[8];
  for (int j = 0; j < 8; ++j) scale[j] = static_cast<std::uint8_t>(32 + ((bits >> (5 * j)) & 31));
  for (int j = 0; j < 4; ++j) {
    const auto high = static_cast<std::uint8_t>(scale[j + 4] >> 4 << 6);
    packed[j] = scale[j] | high;
    packed[j + 4] = scale[j] | high;
    packed[j + 8] = static_cast<std::uint8_t>((scale[j + 4] & 15) | (scale[j + 4] & 15) << 4);
  }
}

/// A scale of Q3_K or IQ4_XS from 5 bits: 16..31 with either sign, plus 32.
std::uint8_t signed_scale(std::uint64_t bits) {
  const int magnitude = 16 + static_cast<int>(bits & 15);
  return static_cast<std::uint8_t>(32 + (bits & 16 ? -magnitude : magnitude));
}

void put_scales_q3(std::uint8_t* packed, FastRandom& random) {
  std::memset(packed, 0, 12);
  for (int j = 0; j < 16; ++j) {
    const std::uint8_t scale = signed_scale(random.next() >> 40);
    packed[j % 8] |= static_cast<std::uint8_t>((scale & 15) << (j / 8 * 4));
    packed[8 + j % 4] |= static_cast<std::uint8_t>((scale >> 4) << (2 * (j / 4)));
  }
}

double iq4_rms() {
  double sum = 0;
  for (const int v : gguf::kIq4Values) sum += v * v;
  return std::sqrt(sum / 16);
}

/// Standard deviation of a block's values for d = 1; the other scales are as `finish` sets them.
double unit_sigma(TensorType type) {
  switch (type) {
    case TensorType::kQ8_0:
      return rms(-127, 127);
    case TensorType::kQ4_0:
      return rms(-8, 7);
    case TensorType::kQ4_1:
      return std::sqrt((16 * 16 - 1) / 12.0);
    case TensorType::kQ5_0:
      return rms(-16, 15);
    case TensorType::kQ5_1:
      return std::sqrt((32 * 32 - 1) / 12.0);
    case TensorType::kIQ4_NL:
      return iq4_rms();
    case TensorType::kMXFP4:
      return std::sqrt(2 * (0.25 + 1 + 2.25 + 4 + 9 + 16 + 36) / 16);
    case TensorType::kQ2_K:
      return rms(8, 15) * std::sqrt((4 * 4 - 1) / 12.0);
    case TensorType::kQ3_K:
      return rms(16, 31) * rms(-4, 3);
    case TensorType::kQ4_K:
      return rms(32, 63) * std::sqrt((16 * 16 - 1) / 12.0);
    case TensorType::kQ5_K:
      return rms(32, 63) * std::sqrt((32 * 32 - 1) / 12.0);
    case TensorType::kQ6_K:
      return rms(64, 127) * rms(-32, 31);
    case TensorType::kIQ4_XS:
      return rms(16, 31) * iq4_rms();
    default:
      return 0;
  }
}

/// Writes `d` at `at`, and after it the offset that centres quants with mean `middle`.
void put_scale_and_offset(std::uint8_t* at, float d, float middle) {
  put_half(at, d);
  put_half(at + 2, middle * get_half(at));
}

void put_scales_iq4(std::uint8_t* block, std::uint64_t random_bits) {
  std::uint16_t high = 0;
  for (int j = 0; j < 8; ++j) {
    const std::uint8_t scale = signed_scale(random_bits >> (5 * j));
    high = static_cast<std::uint16_t>(high | (scale >> 4) << (2 * j));
    std::uint8_t& low = block[4 + j / 2];
    low = static_cast<std::uint8_t>(j % 2 ? (low & 15) | (scale & 15) << 4 : scale & 15);
  }
  std::memcpy(block + 2, &high, sizeof high);
}

/// Turns a block of random bits into a valid block: sets scales, leaves quants.
void finish(TensorType type, std::uint8_t* block, float d, FastRandom& random) {
  const std::uint64_t bits = random.next();
  const std::uint64_t more = bits >> 17;
  switch (type) {
    case TensorType::kQ8_0:
      put_half(block, varied(d, bits, false));
      for (int i = 2; i < 34; ++i) {  // no quantizer writes -128
        if (block[i] == 0x80) block[i] = 0;
      }
      break;
    case TensorType::kQ4_0:
    case TensorType::kQ5_0:
    case TensorType::kIQ4_NL:
      put_half(block, varied(d, bits, true));
      break;
    case TensorType::kMXFP4: {  // the power of two below or above, so that d is their mean square's
      const auto exponent = static_cast<int>(std::floor(std::log2(d)));
      const float ratio = std::ldexp(d, -exponent);
      const bool high = static_cast<float>(bits & 0xffff) / 65536.0f < (ratio * ratio - 1) / 3;
      block[0] = static_cast<std::uint8_t>(127 + exponent + (high ? 1 : 0));
      break;
    }
    case TensorType::kQ4_1:
      put_scale_and_offset(block, varied(d, bits, false), -7.5f);
      break;
    case TensorType::kQ5_1:
      put_scale_and_offset(block, varied(d, bits, false), -15.5f);
      break;
    case TensorType::kQ2_K:
      for (int j = 0; j < 16; ++j) {
        const auto scale = static_cast<std::uint8_t>(8 | (block[j] & 7));
        block[j] = static_cast<std::uint8_t>(scale | scale << 4);
      }
      put_scale_and_offset(block + 80, varied(d, bits, false), 1.5f);
      break;
    case TensorType::kQ3_K:
      put_scales_q3(block + 96, random);
      put_half(block + 108, varied(d, bits, false));
      break;
    case TensorType::kQ4_K:
      put_scales_k4(block + 4, more);
      put_scale_and_offset(block, varied(d, bits, false), 7.5f);
      break;
    case TensorType::kQ5_K:
      put_scales_k4(block + 4, more);
      put_scale_and_offset(block, varied(d, bits, false), 15.5f);
      break;
    case TensorType::kQ6_K:
      for (int j = 192; j < 208; ++j) {
        const int magnitude = 64 + (block[j] & 63);
        block[j] = static_cast<std::uint8_t>(block[j] & 64 ? -magnitude : magnitude);
      }
      put_half(block + 208, varied(d, bits, false));
      break;
    case TensorType::kIQ4_XS: {
      put_scales_iq4(block, more);
      put_half(block, varied(d, bits, false));
      break;
    }
    default:
      CHECK_MSG(false, "no random blocks of this type");
  }
}

/// Table lookups: a 16-bit draw is a normal value in the target's format.
template <class T, class Convert>
Result<void> random_plain(std::uint64_t elements, FastRandom& random, Convert&& convert,
                          const std::function<Result<void>(ByteSpan)>& sink) {
  std::vector<T> table(kNormals);
  for (std::size_t i = 0; i < kNormals; ++i) table[i] = convert(normals()[i]);
  std::vector<T> chunk(kChunkBytes / sizeof(T));
  while (elements > 0) {
    const std::size_t n = std::min<std::uint64_t>(elements, chunk.size());
    for (std::size_t i = 0; i < n; i += 4) {
      const std::uint64_t bits = random.next();
      const std::size_t most = std::min<std::size_t>(4, n - i);
      for (std::size_t k = 0; k < most; ++k) chunk[i + k] = table[(bits >> (16 * k)) & 0xffff];
    }
    HOLDFAST_CHECKED(sink(std::as_bytes(std::span(chunk.data(), n))));
    elements -= n;
  }
  return {};
}

}  // namespace

FastRandom::FastRandom(std::uint64_t seed, std::string_view name) {
  std::uint64_t mixed = seed;
  for (const char c : name) mixed = (mixed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  for (std::uint64_t& word : state_) {  // splitmix64
    mixed += 0x9e3779b97f4a7c15u;
    std::uint64_t z = mixed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    word = z ^ (z >> 31);
  }
}

std::uint64_t FastRandom::next() {
  const auto rotl = [](std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); };
  const std::uint64_t out = rotl(state_[0] + state_[3], 23) + state_[0];
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotl(state_[3], 45);
  return out;
}

float FastRandom::normal() {
  return normals()[next() >> 48];
}

Result<void> random_tensor(TensorType type, std::uint64_t elements, float sigma, FastRandom& random,
                           const std::function<Result<void>(ByteSpan)>& sink) {
  if (type == TensorType::kF32) {
    return random_plain<float>(
        elements, random, [&](float v) { return sigma * v; }, sink);
  }
  if (type == TensorType::kF16) {
    const auto convert = [&](float v) { return gguf::float_to_half(sigma * v); };
    return random_plain<std::uint16_t>(elements, random, convert, sink);
  }
  if (type == TensorType::kBF16) {
    const auto convert = [&](float v) { return gguf::float_to_bf16(sigma * v); };
    return random_plain<std::uint16_t>(elements, random, convert, sink);
  }
  const auto traits = gguf::type_traits(type);
  const double unit = unit_sigma(type);
  CHECK(traits && unit > 0 && elements % traits->block_elements == 0);
  const float d = static_cast<float>(sigma / unit);
  const std::size_t block_bytes = traits->block_bytes;
  const std::size_t chunk_blocks = kChunkBytes / block_bytes;
  std::vector<std::uint8_t> chunk(chunk_blocks * block_bytes + sizeof(std::uint64_t));
  std::uint64_t blocks = elements / traits->block_elements;
  while (blocks > 0) {
    const std::size_t n = std::min<std::uint64_t>(blocks, chunk_blocks);
    for (std::size_t at = 0; at < n * block_bytes; at += sizeof(std::uint64_t)) {
      const std::uint64_t bits = random.next();
      std::memcpy(chunk.data() + at, &bits, sizeof bits);
    }
    for (std::size_t b = 0; b < n; ++b) finish(type, chunk.data() + b * block_bytes, d, random);
    HOLDFAST_CHECKED(sink(std::as_bytes(std::span(chunk.data(), n * block_bytes))));
    blocks -= n;
  }
  return {};
}

Result<void> random_vector(std::uint64_t elements, float mean, float sigma, FastRandom& random,
                           const std::function<Result<void>(ByteSpan)>& sink) {
  std::vector<float> values(elements);
  for (float& v : values) v = mean + sigma * random.normal();
  return sink(std::as_bytes(std::span(values)));
}

}  // namespace holdfast::cli
