#include "shared/huggingface/coded_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "shared/gguf/quants.h"

namespace holdfast::huggingface {
namespace {

using gguf::TensorType;

constexpr std::uint64_t kBlock = 32;  // of Q4_0 and Q8_0

/// Returns the type that holds the numbers in blocks of one scale each, else F16.
TensorType type_of(std::uint64_t columns, const ColumnGroups& groups, const NumberRange& range) {
  const bool whole = columns % kBlock == 0 && groups.ordered &&
                     (groups.columns % kBlock == 0 || groups.columns == columns);
  if (whole && range.least >= -8 && range.most <= 7) return TensorType::kQ4_0;
  if (whole && range.least >= -128 && range.most <= 127) return TensorType::kQ8_0;
  return TensorType::kF16;
}

bool is_number(std::uint16_t half) {
  return (half & 0x7c00u) != 0x7c00u;
}

}  // namespace

CodedMatrix::CodedMatrix(LayerName name, const MatrixForm& form)
    : name_(std::move(name)), form_(form) {
  const auto bytes = gguf::row_bytes(form.type, form.columns);
  CHECK(bytes.has_value() && form.rows > 0 && form.columns > 0);
  row_bytes_ = *bytes;
}

GroupedMatrix::GroupedMatrix(LayerName name, std::uint64_t rows, std::uint64_t columns,
                             const ColumnGroups& groups, const NumberRange& range)
    : CodedMatrix(std::move(name), {type_of(columns, groups, range), rows, columns}),
      groups_(groups) {}

/// Returns the group of each column. The index is checked at each read: the file may change.
Result<std::vector<std::uint32_t>> GroupedMatrix::read_groups() const {
  std::vector<std::uint32_t> out(form().columns);
  constexpr auto kUnset = static_cast<std::uint32_t>(-1);
  const bool unset =
      groups_.index == nullptr || (groups_.may_be_unset && word_at(groups_.index, 0) == kUnset);
  for (std::uint64_t k = 0; k < out.size(); ++k) {
    const auto expected = static_cast<std::uint32_t>(k / groups_.columns);
    out[k] = unset ? expected : word_at(groups_.index, k);
    if (out[k] >= groups_.count) {
      return name().invalid(groups_.index_part,
                            "has group " + std::to_string(static_cast<std::int32_t>(out[k])) +
                                " for input " + std::to_string(k) + ", expected 0 to " +
                                std::to_string(groups_.count - 1));
    }
    if (groups_.ordered && out[k] != expected) {
      return name().invalid(groups_.index_part,
                            "has group " + std::to_string(out[k]) + " for input " +
                                std::to_string(k) + ", expected " + std::to_string(expected) +
                                " in a model without act-order; set desc_act (actorder: group) in "
                                "quantization_config if it has one");
    }
  }
  return out;
}

Result<void> GroupedMatrix::read(std::uint64_t first, std::uint64_t n, std::byte* out) const {
  HOLDFAST_TRY(const std::vector<std::uint32_t> group_of, read_groups());
  const std::uint64_t columns = form().columns;
  std::vector<std::int16_t> numbers(std::min(kTile, n) * columns);
  std::vector<float> scales(std::min(kTile, n) * groups_.count);
  for (std::uint64_t r = 0; r < n; r += kTile) {
    const std::uint64_t rows = std::min(kTile, n - r);
    HOLDFAST_CHECKED(tile(first + r, rows, group_of, numbers.data(), scales.data()));
    for (std::uint64_t i = 0; i < rows; ++i, out += row_bytes()) {
      HOLDFAST_CHECKED(put_row(first + r + i, numbers.data() + i * columns,
                               scales.data() + i * groups_.count, group_of, out));
    }
  }
  return {};
}

Result<void> GroupedMatrix::put_row(std::uint64_t row, const std::int16_t* numbers,
                                    const float* scales, const std::vector<std::uint32_t>& group_of,
                                    std::byte* out) const {
  for (std::uint64_t g = 0; g < groups_.count; ++g) {
    if (is_number(gguf::float_to_half(scales[g]))) continue;
    return name().invalid(scale_part(), "has the scale " + std::to_string(scales[g]) +
                                            " of output " + std::to_string(row) +
                                            ", expected a number that a half can hold");
  }
  if (form().type != TensorType::kF16) return put_blocks(row, numbers, scales, out);
  std::vector<float> values(form().columns);
  for (std::uint64_t k = 0; k < values.size(); ++k) {
    values[k] = scales[group_of[k]] * static_cast<float>(numbers[k]);
  }
  if (put_halves(values.data(), values.size(), out)) return {};
  return name().invalid(scale_part(), "makes a weight of output " + std::to_string(row) +
                                          " larger than 65504, expected weights that fit halves");
}

/// Writes blocks of GGUF: a half, then 32 numbers as bytes (Q8_0), or plus 8 as nibbles, numbers i
/// and i + 16 in a byte (Q4_0).
Result<void> GroupedMatrix::put_blocks(std::uint64_t row, const std::int16_t* numbers,
                                       const float* scales, std::byte* out) const {
  const bool nibbles = form().type == TensorType::kQ4_0;
  const int least = nibbles ? -8 : -128, most = nibbles ? 7 : 127;
  for (std::uint64_t k = 0; k < form().columns; k += kBlock, numbers += kBlock) {
    for (std::uint64_t i = 0; i < kBlock; ++i) {
      if (numbers[i] >= least && numbers[i] <= most) continue;
      return name().invalid(
          scale_part(), "belongs to the number " + std::to_string(numbers[i]) + " of output " +
                            std::to_string(row) + ", expected " + std::to_string(least) + " to " +
                            std::to_string(most) +
                            " for zero points in the middle; set sym (symmetric) to false in "
                            "quantization_config if they are not");
    }
    const std::uint16_t d = gguf::float_to_half(scales[k / groups_.columns]);
    std::memcpy(out, &d, sizeof d);
    auto* bytes = reinterpret_cast<std::uint8_t*>(out) + sizeof d;
    for (std::uint64_t i = 0; nibbles && i < kBlock / 2; ++i) {
      bytes[i] = static_cast<std::uint8_t>((numbers[i] + 8) | (numbers[i + kBlock / 2] + 8) << 4);
    }
    for (std::uint64_t i = 0; !nibbles && i < kBlock; ++i) {
      bytes[i] = static_cast<std::uint8_t>(numbers[i]);
    }
    out += sizeof d + (nibbles ? kBlock / 2 : kBlock);
  }
  return {};
}

std::uint32_t code_at(const std::byte* words, std::uint64_t i, unsigned bits) {
  const std::uint64_t bit = i * bits;
  const auto shift = static_cast<unsigned>(bit % 32);
  std::uint64_t pair = word_at(words, bit / 32);
  if (shift + bits > 32) pair |= static_cast<std::uint64_t>(word_at(words, bit / 32 + 1)) << 32;
  return static_cast<std::uint32_t>(pair >> shift) & ((1u << bits) - 1);
}

bool put_halves(const float* values, std::uint64_t n, std::byte* out) {
  bool good = true;
  for (std::uint64_t i = 0; i < n; ++i, out += sizeof(std::uint16_t)) {
    const std::uint16_t half = gguf::float_to_half(values[i]);
    good = good && is_number(half);
    std::memcpy(out, &half, sizeof half);
  }
  return good;
}

float e4m3_value(std::uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  if ((code & 0x7f) == 0x7f) value = NAN;
  return (code & 0x80) != 0 ? -value : value;
}

float e2m1_value(std::uint8_t code) {
  constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return (code & 8) != 0 ? -kValues[code & 7] : kValues[code & 7];
}

}  // namespace holdfast::huggingface
