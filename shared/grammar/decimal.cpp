#include "shared/grammar/decimal.h"

namespace holdfast::grammar {
namespace {

std::strong_ordering compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.integer.size() != b.integer.size()) return a.integer.size() <=> b.integer.size();
  if (const auto order = a.integer.compare(b.integer); order != 0) return order <=> 0;
  return a.fraction.compare(b.fraction) <=> 0;  // without trailing zeros it is the order of texts
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view text) {
  Decimal out;
  std::size_t at = 0;
  if (at < text.size() && text[at] == '-') {
    out.negative = true;
    ++at;
  }
  std::string digits;
  int point = 0;  // digits before the point
  for (; at < text.size() && is_digit(text[at]); ++at, ++point) digits.push_back(text[at]);
  if (digits.empty()) return std::nullopt;
  if (at < text.size() && text[at] == '.') {
    for (++at; at < text.size() && is_digit(text[at]); ++at) digits.push_back(text[at]);
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    const bool minus = at < text.size() && text[at] == '-';
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    int exponent = 0;
    if (at == text.size()) return std::nullopt;
    for (; at < text.size() && is_digit(text[at]); ++at) {
      exponent = exponent * 10 + (text[at] - '0');
      if (exponent > kExponentMax) return std::nullopt;
    }
    point += minus ? -exponent : exponent;
  }
  if (at != text.size()) return std::nullopt;
  if (point < 0) {
    digits.insert(0, static_cast<std::size_t>(-point), '0');
    point = 0;
  }
  const auto before = static_cast<std::size_t>(point);
  if (digits.size() < before) digits.resize(before, '0');
  out.integer = digits.substr(0, before);
  out.fraction = digits.substr(before);
  out.integer.erase(0, std::min(out.integer.find_first_not_of('0'), out.integer.size()));
  out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
  if (out.is_zero()) out.negative = false;
  return out;
}

Decimal Decimal::negated() const {
  Decimal out = *this;
  out.negative = !negative && !is_zero();
  return out;
}

Decimal Decimal::magnitude() const {
  Decimal out = *this;
  out.negative = false;
  return out;
}

std::string Decimal::str() const {
  std::string out = negative ? "-" : "";
  out += integer.empty() ? "0" : integer;
  if (!fraction.empty()) out += "." + fraction;
  return out;
}

std::strong_ordering Decimal::operator<=>(const Decimal& other) const {
  if (negative != other.negative) {
    return negative ? std::strong_ordering::less : std::strong_ordering::greater;
  }
  return negative ? compare_magnitudes(other, *this) : compare_magnitudes(*this, other);
}

}  // namespace holdfast::grammar
