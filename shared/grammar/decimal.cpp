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

/// Reads the parts of a number's text from left to right.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool at_end() const { return text_.empty(); }
  /// Takes the next character if it is one of `any`.
  bool accept(std::string_view any) {
    if (text_.empty() || any.find(text_.front()) == std::string_view::npos) return false;
    text_.remove_prefix(1);
    return true;
  }
  void append_digits(std::string& digits) {
    for (; !text_.empty() && is_digit(text_.front()); text_.remove_prefix(1)) {
      digits.push_back(text_.front());
    }
  }
  /// Takes an exponent with its sign; nullopt if there is none, or one beyond kExponentMax.
  std::optional<int> exponent() {
    const bool minus = accept("-");
    if (!minus) accept("+");
    if (at_end()) return std::nullopt;
    std::string digits;
    append_digits(digits);
    int exponent = 0;
    for (const char digit : digits) {
      exponent = exponent * 10 + (digit - '0');
      if (exponent > Decimal::kExponentMax) return std::nullopt;
    }
    return minus ? -exponent : exponent;
  }

 private:
  std::string_view text_;
};

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view text) {
  Decimal out;
  Scanner in(text);
  out.negative = in.accept("-");
  std::string digits;
  in.append_digits(digits);
  if (digits.empty()) return std::nullopt;
  auto point = static_cast<int>(digits.size());  // digits before the point
  if (in.accept(".")) in.append_digits(digits);
  if (in.accept("eE")) {
    const std::optional<int> exponent = in.exponent();
    if (!exponent) return std::nullopt;
    point += *exponent;
  }
  if (!in.at_end()) return std::nullopt;
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
