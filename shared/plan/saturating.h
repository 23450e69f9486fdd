#pragma once
// Sums and products of sizes that never wrap.

#include <cstdint>
#include <limits>

#include "shared/base/bytes.h"

namespace holdfast::plan {

/// A saturating non-negative integer: the memory of an absurd request must be too large to fit
/// anywhere, never small by wrapping.
struct Saturating {
  static constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t n = 0;
  Saturating() = default;
  Saturating(std::int64_t v) : n(v < 0 ? 0 : static_cast<std::uint64_t>(v)) {}  // NOLINT
  static Saturating of(std::uint64_t v) {
    Saturating s;
    s.n = v;
    return s;
  }
};

/// Sums and products that end at kMost instead of overflowing.
inline Saturating operator*(Saturating a, Saturating b) {
  return Saturating::of(checked_mul(a.n, b.n).value_or(Saturating::kMost));
}
inline Saturating operator+(Saturating a, Saturating b) {
  return Saturating::of(checked_add(a.n, b.n).value_or(Saturating::kMost));
}
inline Saturating max(Saturating a, Saturating b) {
  return a.n > b.n ? a : b;
}
/// Returns n rounded up to a multiple of `unit`.
inline Saturating whole(Saturating n, std::uint64_t unit) {
  return Saturating::of(n.n / unit + (n.n % unit != 0 ? 1 : 0)) * Saturating::of(unit);
}

}  // namespace holdfast::plan
