#include "bench/device_probe_run/mma_model.h"

#include <algorithm>
#include <cstdlib>

namespace holdfast::bench::probe {
namespace {

/// A number: code * 2^(exponent - fraction), where `exponent` is what sums are aligned by.
struct Term {
  std::int64_t code = 0;
  int exponent = 0;
  int fraction = 0;
};

constexpr int kNone = -10'000;  // the exponent of zero

/// The term of a half: 11 bits of code, an exponent of at least -14.
Term term_of_half(Half h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  const std::int64_t code = exponent == 0 ? fraction : 1024 + fraction;
  return {(h & 0x8000) != 0 ? -code : code, std::max(exponent, 1) - 15, 10};
}

Term term_of_float(float v) {
  if (v == 0) return {0, kNone, 23};
  const int exponent = std::max(std::ilogb(v), -126);
  return {static_cast<std::int64_t>(std::ldexp(v, 23 - exponent)), exponent, 23};
}

Term product_of(Half a, Half b, bool raw) {
  const Term x = term_of_half(a), y = term_of_half(b);
  Term product{x.code * y.code, x.exponent + y.exponent, 20};
  if (product.code == 0) return {0, kNone, 20};
  if (raw) return product;
  const int top = 63 - __builtin_clzll(static_cast<unsigned long long>(std::llabs(product.code)));
  product.exponent += top - 20;
  product.fraction = top;
  return product;
}

/// The term in units of 2^(largest - bits), cut towards zero.
std::int64_t aligned(const Term& term, int largest, int bits) {
  if (term.code == 0) return 0;
  const int shift = bits - term.fraction - (largest - term.exponent);
  if (shift >= 0) return term.code * (std::int64_t{1} << shift);
  if (shift < -62) return 0;
  return term.code / (std::int64_t{1} << -shift);
}

float rounded(std::int64_t sum, int exponent, bool nearest) {
  const double exact = std::ldexp(static_cast<double>(sum), exponent);
  const auto near = static_cast<float>(exact);
  if (nearest || std::fabs(static_cast<double>(near)) <= std::fabs(exact)) return near;
  return std::nextafter(near, 0.0f);
}

float add_block(const MmaModel& model, const Term* products, float c) {
  const Term start = term_of_float(c);
  int largest = start.exponent;
  for (int i = 0; i < model.block; ++i) largest = std::max(largest, products[i].exponent);
  if (largest == kNone) return c;
  std::int64_t sum = aligned(start, largest, model.bits);
  for (int i = 0; i < model.block; ++i) sum += aligned(products[i], largest, model.bits);
  return rounded(sum, largest - model.bits, model.nearest);
}

}  // namespace

std::string MmaModel::name() const {
  return "block" + std::to_string(block) + "_bits" + std::to_string(bits) +
         (nearest ? "_nearest" : "_cut") + (raw ? "_raw" : "_own");
}

std::vector<MmaModel> all_models() {
  std::vector<MmaModel> models;
  for (const int block : {4, 8, 16}) {
    for (int bits = 23; bits <= 27; ++bits) {
      for (const bool nearest : {false, true}) {
        for (const bool raw : {true, false}) models.push_back({block, bits, nearest, raw});
      }
    }
  }
  return models;
}

float mma_step(const MmaModel& model, const Half* a, const Half* b, float c) {
  Term products[16];
  for (int k = 0; k < 16; ++k) products[k] = product_of(a[k], b[k], model.raw);
  for (int k = 0; k < 16; k += model.block) c = add_block(model, products + k, c);
  return c;
}

}  // namespace holdfast::bench::probe
