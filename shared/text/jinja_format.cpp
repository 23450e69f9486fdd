#include "shared/text/jinja_format.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "shared/text/jinja_strings.h"

namespace holdfast::text::jinja {
namespace {

constexpr std::int64_t kWidthMax = 100'000;
constexpr std::int64_t kPrecisionMax = 100;  // of numbers

/// A format [[fill]align][sign][#][0][width][group][.precision][type], common to both functions.
struct Form {
  std::string fill = " ";
  char align = 0;  // '<', '>', '^', '=' (between sign and digits), 0 = default of the type
  char sign = '-';
  bool alternate = false;
  std::int64_t width = 0;
  char group = 0;
  std::int64_t precision = -1;
  char type = 0;
};

/// Reads digits from `at` on; `fallback` if there are none.
std::int64_t read_digits(std::string_view text, std::size_t& at, std::int64_t fallback) {
  if (at >= text.size() || std::isdigit(static_cast<unsigned char>(text[at])) == 0) return fallback;
  std::int64_t n = 0;
  for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0; ++at) {
    n = n * 10 + (text[at] - '0');
    if (n > kWidthMax) throw TemplateError("a width or precision in a format is too large");
  }
  return n;
}

std::string padded(const std::string& sign, const std::string& body, const Form& form,
                   char natural_align) {
  const auto size = static_cast<std::int64_t>(code_points(sign + body).size());
  const std::int64_t missing = std::max<std::int64_t>(form.width - size, 0);
  const char align = form.align != 0 ? form.align : natural_align;
  const std::int64_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  const auto fill = [&](std::int64_t n) {
    std::string out;
    for (; n > 0; --n) append_bounded(out, form.fill);
    return out;
  };
  if (align == '=') return sign + fill(missing) + body;
  return fill(before) + sign + body + fill(missing - before);
}

std::string digits_of(std::uint64_t n, unsigned base, bool upper) {
  const std::string_view letters = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  do {
    out += letters[n % base];
    n /= base;
  } while (n != 0);
  std::reverse(out.begin(), out.end());
  return out;
}

/// Inserts `group` between each three digits before the point.
std::string grouped(const std::string& digits, char group) {
  if (group == 0) return digits;
  const std::size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string out;
  for (std::size_t i = 0; i < whole; ++i) {
    if (i != 0 && (whole - i) % 3 == 0) out += group;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

std::string print_double(double d, const Form& form, char type) {
  if (form.precision > kPrecisionMax) {
    throw TemplateError("a width or precision in a format is too large");
  }
  const int precision = form.precision < 0 ? 6 : static_cast<int>(form.precision);
  const std::string how = std::string(form.alternate ? "%#" : "%") + ".*" + type;
  char buffer[512];
  const int n = std::snprintf(buffer, sizeof buffer, how.c_str(), precision, d);
  return std::string(buffer, static_cast<std::size_t>(n));
}

std::string format_integer(std::int64_t i, const Form& form) {
  const std::uint64_t magnitude =
      i < 0 ? 0 - static_cast<std::uint64_t>(i) : static_cast<std::uint64_t>(i);
  std::string sign = i < 0 ? "-" : form.sign == '-' ? "" : std::string(1, form.sign);
  const bool upper = form.type == 'X';
  const char base = upper ? 'x' : form.type;
  if (form.alternate && (base == 'x' || base == 'o' || base == 'b')) {
    sign += std::string("0") + form.type;
  }
  const unsigned radix = base == 'x' ? 16 : base == 'o' ? 8 : base == 'b' ? 2 : 10;
  std::string digits = digits_of(magnitude, radix, upper);
  if (form.precision > static_cast<std::int64_t>(digits.size())) {
    digits.insert(0, static_cast<std::size_t>(form.precision) - digits.size(), '0');
  }
  return padded(sign, grouped(digits, form.group), form, '>');
}

std::string format_double(double d, const Form& form) {
  const std::string sign = std::signbit(d) && !std::isnan(d) ? "-"
                           : form.sign == '-'                ? ""
                                                             : std::string(1, form.sign);
  const double magnitude = std::fabs(d);
  std::string digits;
  if (form.type == '%') {
    digits = print_double(magnitude * 100, form, 'f') + "%";
  } else if (form.type != 0) {
    digits = print_double(magnitude, form, form.type);
  } else if (form.precision < 0) {
    digits = float_repr(magnitude);
  } else {
    digits = print_double(magnitude, form, 'g');
    if (digits.find_first_not_of("0123456789") == std::string::npos) digits += ".0";
  }
  return padded(sign, grouped(digits, form.group), form, '>');
}

std::string format_text(const std::string& text, const Form& form, char natural_align) {
  if (form.precision < 0) return padded("", text, form, natural_align);
  std::string cut;
  std::int64_t n = 0;
  for (const std::string& c : code_points(text)) {
    if (n++ == form.precision) break;
    cut += c;
  }
  return padded("", cut, form, natural_align);
}

std::string character(std::int64_t point) {
  if (point < 0 || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) {
    throw TemplateError("%c arg not in range(0x110000)");
  }
  return utf8_of(static_cast<std::int32_t>(point));
}

std::int64_t whole_part(double d) {
  if (!(std::fabs(d) < 9.2e18)) throw TemplateError("integer out of range in a format");
  return static_cast<std::int64_t>(d);
}

// ---- "%s" % x

/// Formats one value under `form`, whose type is the conversion's letter.
std::string percent_value(const Value& v, Form form) {
  const char type = form.type;
  switch (type) {
    case 's':
      return format_text(v.to_string(), form, '>');
    case 'r':
    case 'a':
      return format_text(v.repr(), form, '>');
    case 'c':
      if (v.is(Kind::kString) && code_points(v.as_string()).size() == 1) {
        return format_text(v.as_string(), form, '>');
      }
      if (!v.is(Kind::kInt)) throw TemplateError("%c requires int or char");
      return format_text(character(v.as_int()), form, '>');
    default:
      break;
  }
  if (!v.is_number()) {
    throw TemplateError(std::string("%") + type + " format: a real number is required, not " +
                        v.type_name());
  }
  if (std::string_view("eEfFgG").find(type) != std::string_view::npos) {
    return format_double(v.as_double(), form);
  }
  if (v.is(Kind::kFloat) && type != 'd' && type != 'i' && type != 'u') {
    throw TemplateError(std::string("%") + type + " format: an integer is required, not float");
  }
  return format_integer(v.is(Kind::kFloat) ? whole_part(v.as_double()) : v.as_int(), form);
}

Form percent_form(const std::string& format, std::size_t& at) {
  Form form;
  bool zero = false;
  for (; at < format.size(); ++at) {
    const char c = format[at];
    if (c == '-') {
      form.align = '<';
    } else if (c == '+' || (c == ' ' && form.sign == '-')) {
      form.sign = c;
    } else if (c == '#') {
      form.alternate = true;
    } else if (c == '0') {
      zero = true;
    } else if (c != ' ') {
      break;
    }
  }
  form.width = read_digits(format, at, 0);
  if (at < format.size() && format[at] == '.') form.precision = read_digits(format, ++at, 0);
  if (at >= format.size()) throw TemplateError("incomplete format");
  form.type = format[at];
  const bool numeric = std::string_view("src").find(form.type) == std::string_view::npos;
  if (zero && form.align == 0 && numeric) form.align = '=', form.fill = "0";
  return form;
}

// ---- "{}".format(x)

Form brace_form(const std::string& spec) {
  Form form;
  std::size_t at = 0;
  const std::vector<std::string> points = code_points(spec);
  const auto is_align = [](std::string_view c) {
    return c == "<" || c == ">" || c == "^" || c == "=";
  };
  if (points.size() >= 2 && is_align(points[1])) {
    form.fill = points[0];
    form.align = points[1][0];
    at = points[0].size() + 1;
  } else if (!points.empty() && is_align(points[0])) {
    form.align = points[0][0];
    at = 1;
  }
  const auto accept = [&](std::string_view any) {
    return at < spec.size() && any.find(spec[at]) != std::string_view::npos ? spec[at++] : '\0';
  };
  if (const char sign = accept("+- "); sign != 0) form.sign = sign;
  form.alternate = accept("#") != 0;
  if (accept("0") != 0 && form.align == 0) form.align = '=', form.fill = "0";
  form.width = read_digits(spec, at, 0);
  form.group = accept(",_");
  if (accept(".") != 0) {
    form.precision = read_digits(spec, at, -1);
    if (form.precision < 0) throw TemplateError("Format specifier missing precision");
  }
  if (at < spec.size()) form.type = spec[at++];
  if (at < spec.size()) throw TemplateError("Invalid format specifier '" + spec + "'");
  return form;
}

std::string brace_value(const Value& v, const std::string& spec) {
  if (spec.empty()) return v.to_string();
  Form form = brace_form(spec);
  const auto is_type = [&](std::string_view types) {
    return form.type == 0 || types.find(form.type) != std::string_view::npos;
  };
  if (v.is(Kind::kString) && is_type("s")) {
    if (form.align == '=') form.align = '<';  // from a leading 0
    return format_text(v.as_string(), form, '<');
  }
  if (v.is(Kind::kFloat) && is_type("eEfFgG%")) return format_double(v.as_double(), form);
  if (v.is_number() && !v.is(Kind::kFloat)) {
    if (form.type == 'c') return format_text(character(v.as_int()), form, '<');
    if (is_type("dxXob")) {
      if (form.precision >= 0) {
        throw TemplateError("Precision not allowed in integer format specifier");
      }
      return format_integer(v.as_int(), form);
    }
    if (is_type("eEfFgG%")) return format_double(v.as_double(), form);
  }
  if (!v.is(Kind::kString) && !v.is_number()) {
    throw TemplateError("unsupported format string passed to " + std::string(v.type_name()) +
                        ".__format__");
  }
  throw TemplateError(std::string("Unknown format code '") + form.type + "' for object of type '" +
                      v.type_name() + "'");
}

/// Returns the argument of a field; `next` counts the fields without a name.
const Value& brace_field(const std::string& field, const Args& args, std::size_t& next) {
  if (field.find_first_of(".[") != std::string::npos) {
    throw TemplateError("format field '" + field + "' is not supported");
  }
  const bool digits = field.find_first_not_of("0123456789") == std::string::npos;
  const Value* v = nullptr;
  if (digits) {
    std::size_t at = 0;
    const std::size_t index =
        field.empty() ? next++ : static_cast<std::size_t>(read_digits(field, at, 0));
    if (index < args.positional.size()) v = &args.positional[index];
  } else {
    v = args.named.find(field);
  }
  if (v == nullptr) throw TemplateError("format has no value for field '" + field + "'");
  return *v;
}

}  // namespace

std::string percent_format(const std::string& format, const Value& value) {
  const List items = value.is(Kind::kTuple) ? value.as_list() : List{value};
  std::size_t next = 0;
  const bool by_name = value.is(Kind::kDict) || value.is(Kind::kList);  // Python's criterion
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      const std::size_t stop = std::min(format.find('%', i), format.size());
      append_bounded(out, std::string_view(format).substr(i, stop - i));
      i = stop - 1;
      continue;
    }
    const Value* named = nullptr;
    if (++i < format.size() && format[i] == '(') {
      const std::size_t close = format.find(')', i);
      if (close == std::string::npos) throw TemplateError("incomplete format key");
      if (!value.is(Kind::kDict)) throw TemplateError("format requires a mapping");
      const std::string key = format.substr(i + 1, close - i - 1);
      named = value.as_dict().find(key);
      if (named == nullptr) throw TemplateError("format has no value for '" + key + "'");
      i = close + 1;
    }
    const Form form = percent_form(format, i);
    if (form.type == '%') {
      append_bounded(out, "%");
      continue;
    }
    if (std::string_view("sracdiuxXoeEfFgG").find(form.type) == std::string_view::npos) {
      throw TemplateError(std::string("unsupported format character '") + form.type + "'");
    }
    if (named == nullptr && next >= items.size()) {
      throw TemplateError("not enough arguments for format string");
    }
    append_bounded(out, percent_value(named != nullptr ? *named : items[next++], form));
  }
  if (next < items.size() && !by_name) {
    throw TemplateError("not all arguments converted during string formatting");
  }
  return out;
}

std::string brace_format(const std::string& format, const Args& args) {
  std::string out;
  std::size_t next = 0;
  for (std::size_t i = 0; i < format.size(); ++i) {
    const char c = format[i];
    const bool doubled = i + 1 < format.size() && format[i + 1] == c;
    if (c != '{' && c != '}') {
      const std::size_t stop = std::min(format.find_first_of("{}", i), format.size());
      append_bounded(out, std::string_view(format).substr(i, stop - i));
      i = stop - 1;
    } else if (doubled) {
      append_bounded(out, std::string_view(&format[i++], 1));
    } else {
      const std::size_t close = c == '{' ? format.find('}', i) : std::string::npos;
      if (close == std::string::npos) {
        throw TemplateError(std::string("Single '") + c + "' encountered in format string");
      }
      const std::string whole = format.substr(i + 1, close - i - 1);
      const std::size_t colon = std::min(whole.find(':'), whole.size());
      const std::size_t bang = std::min(whole.find('!'), colon);
      const std::string conversion = whole.substr(bang, colon - bang);
      const std::string spec = colon < whole.size() ? whole.substr(colon + 1) : "";
      const Value& v = brace_field(whole.substr(0, bang), args, next);
      if (conversion != "" && conversion != "!r" && conversion != "!s") {
        throw TemplateError("format field '" + whole + "' is not supported");
      }
      append_bounded(out, conversion == "!r"   ? brace_value(Value::string(v.repr()), spec)
                          : conversion == "!s" ? brace_value(Value::string(v.to_string()), spec)
                                               : brace_value(v, spec));
      i = close;
    }
  }
  return out;
}

}  // namespace holdfast::text::jinja
