#include "shared/jinja/numbers.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "shared/jinja/strings.h"

namespace holdfast::text::jinja {

void require_defined(const Value& v) {
  if (v.is(Kind::kUndefined)) throw TemplateError(v.undefined_text());
}

std::int64_t whole_arg(const Args& args, std::size_t i, std::string_view name,
                       std::int64_t fallback) {
  const Value* v = args.get(i, name);
  if (v == nullptr) return fallback;
  if (!v->is_number() || v->is(Kind::kFloat)) {
    throw TemplateError("argument '" + std::string(name) + "' must be an integer, not " +
                        v->type_name());
  }
  return v->as_int();
}

namespace {

bool is_between_digits(std::string_view text, std::size_t i) {
  const auto is_alnum = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  return i > 0 && i + 1 < text.size() && is_alnum(text[i - 1]) && is_alnum(text[i + 1]);
}

/// Returns Python's number text without the underscores between digits; empty if it is not a
/// number.
std::string number_text(const Value& v) {
  std::string text = strip(v.to_string(), "", true, true);
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.erase(0, 1);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (!is_between_digits(text, i)) {
      return "";
    }
  }
  return out;
}

bool parse_double(const std::string& text, double& d) {
  const auto r = std::from_chars(text.data(), text.data() + text.size(), d);
  return !text.empty() && r.ec == std::errc() && r.ptr == text.data() + text.size();
}

/// Returns true if `text` begins with the mark of `base`, 0x, 0o or 0b, and goes on after it.
bool has_base_mark(const std::string& text, int base) {
  if (text.size() <= 2 || text[0] != '0') return false;
  switch (text[1] | 32) {
    case 'x':
      return base == 16;
    case 'o':
      return base == 8;
    case 'b':
      return base == 2;
    default:
      return false;
  }
}

/// Implements int(text, base) of Python: 0x, 0o and 0b where the base has them.
bool parse_integer(std::string text, int base, std::int64_t& i) {
  const bool negative = text.starts_with('-');
  if (negative) text.erase(0, 1);
  if (has_base_mark(text, base)) text.erase(0, 2);
  if (text.empty() || text[0] == '-') return false;
  if (negative) text.insert(0, "-");
  const auto r = std::from_chars(text.data(), text.data() + text.size(), i, base);
  return r.ec == std::errc() && r.ptr == text.data() + text.size();
}

/// Returns the integer to which a float rounds towards zero; `fallback` if it is not finite.
Value truncated(double d, const Value& fallback) {
  if (std::isnan(d) || std::isinf(d)) return fallback;
  if (std::fabs(d) >= 9.2e18) throw TemplateError("integer overflow in 'int'");
  return Value::integer(static_cast<std::int64_t>(d));
}

}  // namespace

Value filter_int(const Value& v, const Args& args, Runtime&) {
  require_defined(v);
  const Value* given = args.get(0, "default");
  const Value fallback = given != nullptr ? *given : Value::integer(0);
  if (v.is(Kind::kFloat)) return truncated(v.as_double(), fallback);
  if (v.is_number()) return Value::integer(v.as_int());
  if (!v.is(Kind::kString)) return fallback;
  const std::int64_t base = whole_arg(args, 1, "base", 10);
  const std::string text = number_text(v);
  std::int64_t i = 0;
  const bool possible = base >= 2 && base <= 36;
  if (possible && parse_integer(text, static_cast<int>(base), i)) return Value::integer(i);
  double d = 0;
  return parse_double(text, d) ? truncated(d, fallback) : fallback;
}

Value filter_float(const Value& v, const Args& args, Runtime&) {
  require_defined(v);
  if (v.is_number()) return Value::number(v.as_double());
  double d = 0;
  if (v.is(Kind::kString) && parse_double(number_text(v), d)) return Value::number(d);
  const Value* fallback = args.get(0, "default");
  return fallback != nullptr ? *fallback : Value::number(0);
}

namespace {

/// Implements Python's round(x, digits) of a float: to the nearest decimal text, ties to even.
double round_half_even(double x, std::int64_t digits) {
  if (digits > 300 || !std::isfinite(x)) return x;
  if (digits < -300) return 0 * x;
  if (digits < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(x / scale) * scale;
  }
  char buffer[800];
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), x);
  return std::strtod(buffer, nullptr);
}

}  // namespace

Value filter_round(const Value& v, const Args& args, Runtime&) {
  require_defined(v);
  if (!v.is_number()) {
    throw TemplateError(std::string("type ") + v.type_name() + " doesn't define __round__ method");
  }
  const std::int64_t digits = whole_arg(args, 0, "precision", 0);
  const Value* method = args.get(1, "method");
  const std::string how = method != nullptr ? method->to_string() : "common";
  if (how == "common") {
    if (v.is(Kind::kFloat)) return Value::number(round_half_even(v.as_double(), digits));
    if (digits >= 0) return Value::integer(v.as_int());
    return Value::integer(static_cast<std::int64_t>(round_half_even(v.as_double(), digits)));
  }
  if (how != "ceil" && how != "floor") {
    throw TemplateError("method must be common, ceil or floor");
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double x = v.as_double() * scale;
  return Value::number((how == "ceil" ? std::ceil(x) : std::floor(x)) / scale);
}

Value filter_abs(const Value& v, const Args&, Runtime&) {
  require_defined(v);
  if (!v.is_number())
    throw TemplateError(std::string("bad operand type for abs(): '") + v.type_name() + "'");
  if (v.is(Kind::kFloat)) return Value::number(std::fabs(v.as_double()));
  if (v.as_int() == INT64_MIN) throw TemplateError("integer overflow in 'abs'");
  return Value::integer(v.as_int() < 0 ? -v.as_int() : v.as_int());
}

}  // namespace holdfast::text::jinja
