#pragma once
// Exact decimal numbers, for bounds and steps of a schema.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::grammar {

/// A number (-1)^negative * integer.fraction: digits before and after the point, without
/// insignificant zeros. Zero is not negative.
struct Decimal {
  bool negative = false;
  std::string integer;   // "" for 0, else no leading zero
  std::string fraction;  // no trailing zero

  static constexpr int kExponentMax = 400;
  /// Parses a number in JSON's form; nullopt for another text or an exponent beyond kExponentMax.
  static std::optional<Decimal> parse(std::string_view text);
  static Decimal of(std::int64_t value) { return *parse(std::to_string(value)); }
  bool is_zero() const { return integer.empty() && fraction.empty(); }
  bool is_integer() const { return fraction.empty(); }
  Decimal negated() const;
  Decimal magnitude() const;
  std::string str() const;
  std::strong_ordering operator<=>(const Decimal& other) const;
  bool operator==(const Decimal& other) const = default;
};

}  // namespace holdfast::grammar
