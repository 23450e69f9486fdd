#include "tests/huggingface/quantise_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "shared/gguf/quants.h"

namespace holdfast::huggingface_test {
namespace {

using Tensor = StoredFolder::Tensor;
using Shape = std::vector<std::uint64_t>;

/// Words of 32 bits in [rows][columns] whose bits are set one by one.
class Words {
 public:
  Words(std::size_t rows, std::size_t columns) : rows_(rows), columns_(columns) {
    words_.resize(rows * columns);
  }
  /// Sets bit `bit` of the stream down a column.
  void put_down(std::size_t column, std::size_t bit, unsigned bits, std::uint32_t code) {
    for (unsigned b = 0; b < bits; ++b) {
      const std::size_t at = bit + b;
      words_.at(at / 32 * columns_ + column) |= (code >> b & 1) << at % 32;
    }
  }
  /// Sets bits of the stream along a row.
  void put_along(std::size_t row, std::size_t bit, unsigned bits, std::uint32_t code) {
    for (unsigned b = 0; b < bits; ++b) {
      const std::size_t at = bit + b;
      words_.at(row * columns_ + at / 32) |= (code >> b & 1) << at % 32;
    }
  }
  Tensor tensor() const {
    return {"I32",
            {rows_, columns_},
            std::string(reinterpret_cast<const char*>(words_.data()), words_.size() * 4)};
  }

 private:
  std::size_t rows_, columns_;
  std::vector<std::uint32_t> words_;
};

template <class T>
Tensor numbers_tensor(const std::string& dtype, Shape shape, const std::vector<T>& numbers) {
  return {dtype, std::move(shape),
          std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T))};
}

/// The scale and the zero point of some weights: codes are from 0 to `most`.
struct Affine {
  float scale = 1;
  int zero = 0;

  int code(float w, int most) const {
    return std::clamp(static_cast<int>(std::lround(w / scale)) + zero, 0, most);
  }
};

Affine affine_of(const std::vector<float>& weights, int most, bool symmetric,
                 const std::string& dtype) {
  const auto [low, high] = std::minmax_element(weights.begin(), weights.end());
  const float least = std::min(*low, 0.0f), largest = std::max(*high, 0.0f);
  Affine out;
  const float magnitude = std::max(-least, largest);
  out.scale = symmetric ? magnitude / static_cast<float>(most / 2)
                        : (largest - least) / static_cast<float>(most);
  out.scale = rounded(std::max(out.scale, 1e-4f), dtype);
  out.zero = symmetric ? (most + 1) / 2
                       : std::clamp(static_cast<int>(std::lround(-least / out.scale)), 0, most);
  return out;
}

/// The weights of row `r` whose column is in group `g`.
std::vector<float> of_group(const PlainMatrix& m, std::size_t r,
                            const std::vector<std::size_t>& group_of, std::size_t g) {
  std::vector<float> out;
  for (std::size_t k = 0; k < m.columns; ++k) {
    if (group_of[k] == g) out.push_back(m.values[r * m.columns + k]);
  }
  return out;
}

/// The group of each column: in order, or mixed by a fixed permutation.
std::vector<std::size_t> groups_of(std::size_t columns, std::size_t group, bool mixed) {
  std::vector<std::size_t> out(columns);
  for (std::size_t k = 0; k < columns; ++k) out[k] = (mixed ? k * 7 % columns : k) / group;
  return out;
}

double e4m3(unsigned code) {
  const unsigned exponent = code >> 3 & 15, mantissa = code & 7;
  const double magnitude = exponent == 0 ? mantissa / 8.0 * std::pow(2, -6)
                                         : (1 + mantissa / 8.0) * std::pow(2, double(exponent) - 7);
  return code & 128 ? -magnitude : magnitude;
}

double e2m1(unsigned code) {
  const unsigned exponent = code >> 1 & 3, mantissa = code & 1;
  const double magnitude =
      exponent == 0 ? mantissa * 0.5 : (1 + mantissa * 0.5) * std::pow(2, double(exponent) - 1);
  return code & 8 ? -magnitude : magnitude;
}

/// The codes of a small float in the order of their values; E4M3 has no number at 127 and 255.
class SmallFloats {
 public:
  SmallFloats(unsigned codes, double (*value)(unsigned)) {
    for (unsigned c = 0; c < codes; ++c) {
      if (codes < 256 || (c & 127) != 127) by_value_[value(c)] = c;
    }
  }
  /// The code whose value is next to `x`.
  unsigned nearest(double x) const {
    const auto above = by_value_.lower_bound(x);
    if (above == by_value_.begin()) return above->second;
    const auto below = std::prev(above);
    if (above == by_value_.end()) return below->second;
    return above->first - x < x - below->first ? above->second : below->second;
  }

 private:
  std::map<double, unsigned> by_value_;
};

unsigned nearest_e4m3(double x) {
  static const SmallFloats floats(256, e4m3);
  return floats.nearest(x);
}
unsigned nearest_e2m1(double x) {
  static const SmallFloats floats(16, e2m1);
  return floats.nearest(x);
}

/// Two codes of four bits in a byte, the first one low or high.
std::string nibbles(const std::vector<unsigned>& codes, bool first_is_high) {
  std::string out(codes.size() / 2, '\0');
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const bool high = (i % 2 == 0) == first_is_high;
    out[i / 2] = static_cast<char>(static_cast<unsigned char>(out[i / 2]) | codes[i] << 4 * high);
  }
  return out;
}

float largest(const float* values, std::size_t n) {
  float most = 0;
  for (std::size_t i = 0; i < n; ++i) most = std::max(most, std::fabs(values[i]));
  return most;
}

}  // namespace

float rounded(float value, const std::string& dtype) {
  if (dtype == "F16") return gguf::half_to_float(gguf::float_to_half(value));
  if (dtype == "BF16") return gguf::bf16_to_float(gguf::float_to_bf16(value));
  return value;
}

Tensor floats_tensor(const std::string& dtype, Shape shape, const std::vector<float>& values) {
  if (dtype == "F32") return numbers_tensor(dtype, std::move(shape), values);
  std::vector<std::uint16_t> brief;
  for (const float v : values) {
    brief.push_back(dtype == "F16" ? gguf::float_to_half(v) : gguf::float_to_bf16(v));
  }
  return numbers_tensor(dtype, std::move(shape), brief);
}

QuantisedLayer gptq_layer(const PlainMatrix& m, const GptqForm& form) {
  const std::size_t group = form.group > 0 ? form.group : m.columns;
  const std::size_t groups = (m.columns + group - 1) / group;
  const int most = (1 << form.bits) - 1;
  const auto group_of = groups_of(m.columns, group, form.act_order);
  Words codes(m.columns * form.bits / 32, m.rows), zeros(groups, m.rows * form.bits / 32);
  std::vector<float> scales(groups * m.rows);
  QuantisedLayer out;
  out.weights.resize(m.values.size());
  for (std::size_t r = 0; r < m.rows; ++r) {
    for (std::size_t g = 0; g < groups; ++g) {
      Affine a = affine_of(of_group(m, r, group_of, g), most, form.symmetric, form.scale_dtype);
      if (!form.v2) a.zero = std::max(a.zero, 1);
      scales[g * m.rows + r] = a.scale;
      zeros.put_along(g, r * form.bits, form.bits,
                      static_cast<std::uint32_t>(form.v2 ? a.zero : a.zero - 1));
      for (std::size_t k = 0; k < m.columns; ++k) {
        if (group_of[k] != g) continue;
        const int code = a.code(m.values[r * m.columns + k], most);
        codes.put_down(r, k * form.bits, form.bits, static_cast<std::uint32_t>(code));
        out.weights[r * m.columns + k] = a.scale * static_cast<float>(code - a.zero);
      }
    }
  }
  out.parts["qweight"] = codes.tensor();
  out.parts["qzeros"] = zeros.tensor();
  out.parts["scales"] = floats_tensor(form.scale_dtype, {groups, m.rows}, scales);
  std::vector<std::int32_t> index(group_of.begin(), group_of.end());
  out.parts["g_idx"] = numbers_tensor("I32", {m.columns}, index);
  return out;
}

QuantisedLayer awq_layer(const PlainMatrix& m, std::size_t group_size) {
  const std::size_t group = group_size > 0 ? group_size : m.columns;
  const std::size_t groups = (m.columns + group - 1) / group;
  const auto group_of = groups_of(m.columns, group, false);
  constexpr std::size_t kOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};  // the output of each nibble
  Words codes(m.columns, m.rows / 8), zeros(groups, m.rows / 8);
  std::vector<float> scales(groups * m.rows);
  QuantisedLayer out;
  out.weights.resize(m.values.size());
  for (std::size_t word = 0; word < m.rows / 8; ++word) {
    for (std::size_t nibble = 0; nibble < 8; ++nibble) {
      const std::size_t r = word * 8 + kOrder[nibble], bit = word * 32 + nibble * 4;
      for (std::size_t g = 0; g < groups; ++g) {
        const Affine a = affine_of(of_group(m, r, group_of, g), 15, false, "F16");
        scales[g * m.rows + r] = a.scale;
        zeros.put_along(g, bit, 4, static_cast<std::uint32_t>(a.zero));
        for (std::size_t k = g * group; k < std::min(m.columns, (g + 1) * group); ++k) {
          const int code = a.code(m.values[r * m.columns + k], 15);
          codes.put_along(k, bit, 4, static_cast<std::uint32_t>(code));
          out.weights[r * m.columns + k] = a.scale * static_cast<float>(code - a.zero);
        }
      }
    }
  }
  out.parts["qweight"] = codes.tensor();
  out.parts["qzeros"] = zeros.tensor();
  out.parts["scales"] = floats_tensor("F16", {groups, m.rows}, scales);
  return out;
}

QuantisedLayer fp8_layer(const PlainMatrix& m, const Fp8Form& form) {
  const std::size_t rows = form.rows > 0 ? form.rows : m.rows;
  const std::size_t columns = form.columns > 0 ? form.columns : m.columns;
  const std::size_t down = (m.rows + rows - 1) / rows, across = (m.columns + columns - 1) / columns;
  const bool exponents = form.scale_dtype == "F8_E8M0" || form.scale_dtype == "U8";
  std::vector<float> scales(down * across);
  for (std::size_t r = 0; r < m.rows; ++r) {
    for (std::size_t k = 0; k < m.columns; ++k) {
      float& most = scales[r / rows * across + k / columns];
      most = std::max(most, std::fabs(m.values[r * m.columns + k]));
    }
  }
  std::string powers;
  for (float& s : scales) {
    s = rounded(s / 448, form.scale_dtype);
    const int power = static_cast<int>(std::ceil(std::log2(s)));
    if (exponents) s = std::ldexp(1.0f, power);
    powers.push_back(static_cast<char>(power + 127));
  }
  QuantisedLayer out;
  Tensor weight{"F8_E4M3", {m.rows, m.columns}, ""};
  for (std::size_t r = 0; r < m.rows; ++r) {
    for (std::size_t k = 0; k < m.columns; ++k) {
      const float s = scales[r / rows * across + k / columns];
      const unsigned code = nearest_e4m3(m.values[r * m.columns + k] / s);
      weight.bytes.push_back(static_cast<char>(code));
      out.weights.push_back(static_cast<float>(e4m3(code)) * s);
    }
  }
  const Shape shape = form.scale_shape.empty() ? Shape{down, across} : form.scale_shape;
  out.parts["weight"] = weight;
  out.parts[form.part] = exponents ? Tensor{form.scale_dtype, shape, powers}
                                   : floats_tensor(form.scale_dtype, shape, scales);
  return out;
}

QuantisedLayer int_layer(const PlainMatrix& m, const IntForm& form) {
  const std::size_t group = form.group > 0 ? form.group : m.columns;
  const std::size_t groups = (m.columns + group - 1) / group;
  const auto group_of = groups_of(m.columns, group, form.act_order);
  const int most = (1 << form.bits) - 1, middle = (most + 1) / 2;
  Words codes(m.rows, (m.columns * form.bits + 31) / 32);
  Words zeros((m.rows * form.bits + 31) / 32, groups);
  std::vector<std::int8_t> bytes(m.values.size()), zero_bytes(m.rows * groups);
  std::vector<float> scales(m.rows * groups);
  QuantisedLayer out;
  out.weights.resize(m.values.size());
  for (std::size_t r = 0; r < m.rows; ++r) {
    for (std::size_t g = 0; g < groups; ++g) {
      const Affine a = affine_of(form.one_scale ? m.values : of_group(m, r, group_of, g), most,
                                 form.symmetric, form.scale_dtype);
      scales[r * groups + g] = a.scale;
      zeros.put_down(g, r * form.bits, form.bits, static_cast<std::uint32_t>(a.zero));
      zero_bytes[r * groups + g] = static_cast<std::int8_t>(a.zero - middle);
      for (std::size_t k = 0; k < m.columns; ++k) {
        if (group_of[k] != g) continue;
        const int code = a.code(m.values[r * m.columns + k], most);
        codes.put_along(r, k * form.bits, form.bits, static_cast<std::uint32_t>(code));
        bytes[r * m.columns + k] = static_cast<std::int8_t>(code - middle);
        out.weights[r * m.columns + k] = a.scale * static_cast<float>(code - a.zero);
      }
    }
  }
  const Shape shape = form.one_scale ? Shape{1} : Shape{m.rows, groups};
  if (form.one_scale) scales.resize(1), zero_bytes.resize(1);
  out.parts["weight_scale"] = floats_tensor(form.scale_dtype, shape, scales);
  if (form.packed) {
    out.parts["weight_packed"] = codes.tensor();
    out.parts["weight_shape"] = numbers_tensor<std::int64_t>(
        "I64", {2}, {static_cast<std::int64_t>(m.rows), static_cast<std::int64_t>(m.columns)});
    if (!form.symmetric) out.parts["weight_zero_point"] = zeros.tensor();
  } else {
    out.parts["weight"] = numbers_tensor("I8", {m.rows, m.columns}, bytes);
    if (!form.symmetric) out.parts["weight_zero_point"] = numbers_tensor("I8", shape, zero_bytes);
  }
  if (form.act_order) {
    out.parts["weight_g_idx"] = numbers_tensor(
        "I32", {m.columns}, std::vector<std::int32_t>(group_of.begin(), group_of.end()));
  }
  return out;
}

namespace {

/// The tables of the paper of NF4, and of FP4 in bitsandbytes' documents.
const std::vector<float>& four_bit_table(bool nf4) {
  static const std::vector<float> normal = {-1.0f,        -0.69619280f, -0.52507305f, -0.39491750f,
                                            -0.28444138f, -0.18477343f, -0.09105004f, 0.0f,
                                            0.07958030f,  0.16093020f,  0.24611230f,  0.33791524f,
                                            0.44070983f,  0.56261700f,  0.72295684f,  1.0f};
  static const std::vector<float> floats = {
      0,     0.0052083333f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
      -0.0f, -0.0052083333f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
  return nf4 ? normal : floats;
}

/// Codes of a table, next to x.
unsigned nearest_of(const std::vector<float>& table, float x) {
  std::size_t best = 0;
  for (std::size_t c = 0; c < table.size(); ++c) {
    if (std::fabs(table[c] - x) < std::fabs(table[best] - x)) best = c;
  }
  return static_cast<unsigned>(best);
}

constexpr std::size_t kFourBitBlock = 64, kNestedBlock = 256;

/// Quantises the magnitudes of blocks in place, and adds their tensors.
float nest(std::vector<float>& magnitudes, QuantisedLayer& out) {
  const float offset =
      std::accumulate(magnitudes.begin(), magnitudes.end(), 0.0f) / float(magnitudes.size());
  std::vector<float> table, outer;
  for (int i = 0; i < 256; ++i) table.push_back(float(i - 128) / 128);
  Tensor codes{"U8", {magnitudes.size()}, ""};
  for (std::size_t b = 0; b < magnitudes.size(); ++b) {
    if (b % kNestedBlock == 0) {
      float most = 1e-6f;
      for (std::size_t i = b; i < std::min(b + kNestedBlock, magnitudes.size()); ++i) {
        most = std::max(most, std::fabs(magnitudes[i] - offset));
      }
      outer.push_back(most);
    }
    const unsigned code = nearest_of(table, (magnitudes[b] - offset) / outer.back());
    codes.bytes.push_back(static_cast<char>(code));
    magnitudes[b] = table[code] * outer.back() + offset;
  }
  out.parts["weight.absmax"] = codes;
  out.parts["weight.nested_absmax"] = floats_tensor("F32", {outer.size()}, outer);
  out.parts["weight.nested_quant_map"] = floats_tensor("F32", {256}, table);
  return offset;
}

}  // namespace

QuantisedLayer bitsandbytes_layer(const PlainMatrix& m, const FourBitForm& form) {
  const std::vector<float>& table = four_bit_table(form.nf4);
  const std::size_t n = m.values.size();
  std::vector<float> magnitudes;
  for (std::size_t i = 0; i < n; i += kFourBitBlock) {
    magnitudes.push_back(largest(m.values.data() + i, std::min(kFourBitBlock, n - i)));
  }
  QuantisedLayer out;
  nlohmann::json state = {{"quant_type", form.nf4 ? "nf4" : "fp4"},
                          {"blocksize", kFourBitBlock},
                          {"dtype", "bfloat16"},
                          {"shape", {m.rows, m.columns}}};
  if (form.nested) {
    state["nested_offset"] = nest(magnitudes, out);
    state["nested_blocksize"] = kNestedBlock;
    state["nested_dtype"] = "float32";
  } else {
    out.parts["weight.absmax"] = floats_tensor("F32", {magnitudes.size()}, magnitudes);
  }
  std::vector<unsigned> codes;
  for (std::size_t i = 0; i < n; ++i) {
    const float most = magnitudes[i / kFourBitBlock];
    codes.push_back(nearest_of(table, m.values[i] / most));
    out.weights.push_back(table[codes.back()] * most);
  }
  const std::uint64_t bytes = form.storage == "U8" ? 1 : 2;
  out.parts["weight"] = {form.storage, {n / 2 / bytes, 1}, nibbles(codes, true)};
  out.parts["weight.quant_map"] = floats_tensor("F32", {16}, table);
  const std::string text = state.dump();
  out.parts[std::string("weight.quant_state.bitsandbytes__") + (form.nf4 ? "nf4" : "fp4")] = {
      "U8", {text.size()}, text};
  return out;
}

QuantisedLayer int8_scb_layer(const PlainMatrix& m) {
  std::vector<float> most;
  std::vector<std::int8_t> codes;
  QuantisedLayer out;
  for (std::size_t r = 0; r < m.rows; ++r) {
    most.push_back(largest(m.values.data() + r * m.columns, m.columns));
    for (std::size_t k = 0; k < m.columns; ++k) {
      const float w = m.values[r * m.columns + k];
      codes.push_back(static_cast<std::int8_t>(std::lround(w / most.back() * 127)));
      out.weights.push_back(static_cast<float>(codes.back()) * most.back() / 127);
    }
  }
  out.parts["weight"] = numbers_tensor("I8", {m.rows, m.columns}, codes);
  out.parts["SCB"] = floats_tensor("F32", {m.rows}, most);
  out.parts["weight_format"] = {"U8", {}, std::string(1, '\0')};
  return out;
}

QuantisedLayer nvfp4_layer(const PlainMatrix& m, bool compressed_tensors) {
  constexpr std::size_t kBlock = 16;
  const float global = largest(m.values.data(), m.values.size()) / (6 * 448);
  QuantisedLayer out;
  std::vector<unsigned> codes;
  std::string scales;
  for (std::size_t i = 0; i < m.values.size(); i += kBlock) {
    const float most = largest(m.values.data() + i, kBlock);
    const unsigned scale = nearest_e4m3(most / 6 / global);
    scales.push_back(static_cast<char>(scale));
    for (std::size_t k = i; k < i + kBlock; ++k) {
      const double step = e4m3(scale) * global;
      codes.push_back(step > 0 ? nearest_e2m1(m.values[k] / step) : 0);
      out.weights.push_back(static_cast<float>(e2m1(codes.back()) * step));
    }
  }
  const bool ct = compressed_tensors;
  out.parts[ct ? "weight_packed" : "weight"] = {
      "U8", {m.rows, m.columns / 2}, nibbles(codes, false)};
  out.parts["weight_scale"] = {"F8_E4M3", {m.rows, m.columns / kBlock}, scales};
  out.parts[ct ? "weight_global_scale" : "weight_scale_2"] =
      floats_tensor("F32", ct ? Shape{1} : Shape{}, {ct ? 1 / global : global});
  return out;
}

QuantisedLayer mxfp4_layer(const PlainMatrix& m) {
  constexpr std::size_t kBlock = 32;
  QuantisedLayer out;
  std::vector<unsigned> codes;
  std::string exponents;
  for (std::size_t i = 0; i < m.values.size(); i += kBlock) {
    const float most = std::max(largest(m.values.data() + i, kBlock), 1e-6f);
    const int power = static_cast<int>(std::floor(std::log2(most))) - 2;
    exponents.push_back(static_cast<char>(power + 127));
    for (std::size_t k = i; k < i + kBlock; ++k) {
      codes.push_back(nearest_e2m1(std::ldexp(m.values[k], -power)));
      out.weights.push_back(std::ldexp(static_cast<float>(e2m1(codes.back())), power));
    }
  }
  out.parts["weight_packed"] = {"U8", {m.rows, m.columns / 2}, nibbles(codes, false)};
  out.parts["weight_scale"] = {"U8", {m.rows, m.columns / kBlock}, exponents};
  return out;
}

}  // namespace holdfast::huggingface_test
