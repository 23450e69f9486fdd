#include "shared/jinja/format.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "shared/jinja/strings.h"

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

/// Returns the base in which an integer conversion writes.
unsigned radix_of(char type) {
  switch (type) {
    case 'x':
    case 'X':
      return 16;
    case 'o':
      return 8;
    case 'b':
      return 2;
    default:
      return 10;
  }
}

std::string sign_of(bool negative, const Form& form) {
  if (negative) return "-";
  return form.sign == '-' ? "" : std::string(1, form.sign);
}

std::string format_integer(std::int64_t i, const Form& form) {
  const std::uint64_t magnitude =
      i < 0 ? 0 - static_cast<std::uint64_t>(i) : static_cast<std::uint64_t>(i);
  const unsigned radix = radix_of(form.type);
  std::string sign = sign_of(i < 0, form);
  if (form.alternate && radix != 10) sign += std::string("0") + form.type;
  std::string digits = digits_of(magnitude, radix, form.type == 'X');
  if (form.precision > static_cast<std::int64_t>(digits.size())) {
    digits.insert(0, static_cast<std::size_t>(form.precision) - digits.size(), '0');
  }
  return padded(sign, grouped(digits, form.group), form, '>');
}

std::string format_double(double d, const Form& form) {
  const std::string sign = sign_of(std::signbit(d) && !std::isnan(d), form);
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

bool is_one_of(char c, std::string_view any) {
  return any.find(c) != std::string_view::npos;
}

std::string percent_character(const Value& v, const Form& form) {
  if (v.is(Kind::kString) && code_points(v.as_string()).size() == 1) {
    return format_text(v.as_string(), form, '>');
  }
  if (!v.is(Kind::kInt)) throw TemplateError("%c requires int or char");
  return format_text(character(v.as_int()), form, '>');
}

std::string percent_number(const Value& v, const Form& form) {
  const char type = form.type;
  if (!v.is_number()) {
    throw TemplateError(std::string("%") + type + " format: a real number is required, not " +
                        v.type_name());
  }
  if (is_one_of(type, "eEfFgG")) return format_double(v.as_double(), form);
  if (!v.is(Kind::kFloat)) return format_integer(v.as_int(), form);
  if (!is_one_of(type, "diu")) {
    throw TemplateError(std::string("%") + type + " format: an integer is required, not float");
  }
  return format_integer(whole_part(v.as_double()), form);
}

/// Formats one value under `form`, whose type is the conversion's letter.
std::string percent_value(const Value& v, const Form& form) {
  switch (form.type) {
    case 's':
      return format_text(v.to_string(), form, '>');
    case 'r':
    case 'a':
      return format_text(v.repr(), form, '>');
    case 'c':
      return percent_character(v, form);
    default:
      return percent_number(v, form);
  }
}

/// Puts zeros between sign and digits, unless another alignment is asked for.
void fill_with_zeros(Form& form) {
  if (form.align != 0) return;
  form.align = '=';
  form.fill = "0";
}

/// Reads the flags of a conversion into `form`; returns true if 0 is among them.
bool read_percent_flags(const std::string& format, std::size_t& at, Form& form) {
  bool zero = false;
  for (; at < format.size() && is_one_of(format[at], "-+ #0"); ++at) {
    const char c = format[at];
    if (c == '-') {
      form.align = '<';
    } else if (c == '#') {
      form.alternate = true;
    } else if (c == '0') {
      zero = true;
    } else if (c == '+' || form.sign == '-') {  // a space does not replace a plus
      form.sign = c;
    }
  }
  return zero;
}

Form percent_form(const std::string& format, std::size_t& at) {
  Form form;
  const bool zero = read_percent_flags(format, at, form);
  form.width = read_digits(format, at, 0);
  if (at < format.size() && format[at] == '.') form.precision = read_digits(format, ++at, 0);
  if (at >= format.size()) throw TemplateError("incomplete format");
  form.type = format[at];
  if (zero && !is_one_of(form.type, "src")) fill_with_zeros(form);
  return form;
}

// ---- "{}".format(x)

/// Reads [[fill]align] at the start of `spec`; returns the bytes that it takes.
std::size_t read_alignment(const std::string& spec, Form& form) {
  const std::vector<std::string> points = code_points(spec);
  const auto is_align = [](const std::string& c) {
    return c.size() == 1 && is_one_of(c[0], "<>^=");
  };
  if (points.size() >= 2 && is_align(points[1])) {
    form.fill = points[0];
    form.align = points[1][0];
    return points[0].size() + 1;
  }
  if (points.empty() || !is_align(points[0])) return 0;
  form.align = points[0][0];
  return 1;
}

Form brace_form(const std::string& spec) {
  Form form;
  std::size_t at = read_alignment(spec, form);
  const auto accept = [&](std::string_view any) {
    return at < spec.size() && is_one_of(spec[at], any) ? spec[at++] : '\0';
  };
  if (const char sign = accept("+- "); sign != 0) form.sign = sign;
  form.alternate = accept("#") != 0;
  if (accept("0") != 0) fill_with_zeros(form);
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

/// Returns true if the form has no type or one of `types`.
bool has_type_of(const Form& form, std::string_view types) {
  return form.type == 0 || is_one_of(form.type, types);
}

std::string brace_text(const std::string& text, Form form) {
  if (form.align == '=') form.align = '<';  // from a leading 0
  return format_text(text, form, '<');
}

/// Formats an integer or a boolean whose form has one of the types "dxXob", or none.
std::string brace_integer(std::int64_t i, const Form& form) {
  if (form.precision >= 0) {
    throw TemplateError("Precision not allowed in integer format specifier");
  }
  return format_integer(i, form);
}

[[noreturn]] void refuse_type(const Value& v, const Form& form) {
  throw TemplateError(std::string("Unknown format code '") + form.type + "' for object of type '" +
                      v.type_name() + "'");
}

std::string brace_number(const Value& v, const Form& form) {
  if (!v.is(Kind::kFloat)) {
    if (form.type == 'c') return format_text(character(v.as_int()), form, '<');
    if (has_type_of(form, "dxXob")) return brace_integer(v.as_int(), form);
  }
  if (has_type_of(form, "eEfFgG%")) return format_double(v.as_double(), form);
  refuse_type(v, form);
}

std::string brace_value(const Value& v, const std::string& spec) {
  if (spec.empty()) return v.to_string();
  const Form form = brace_form(spec);
  if (v.is_number()) return brace_number(v, form);
  if (!v.is(Kind::kString)) {
    throw TemplateError("unsupported format string passed to " + std::string(v.type_name()) +
                        ".__format__");
  }
  if (has_type_of(form, "s")) return brace_text(v.as_string(), form);
  refuse_type(v, form);
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

/// The arguments of "%": a tuple's members, or one value; conversions with a name take a dict's.
class PercentArguments {
 public:
  explicit PercentArguments(const Value& value)
      : value_(value), items_(value.is(Kind::kTuple) ? value.as_list() : List{value}) {}

  /// Reads the (name) at `at`, where there is one; returns its value, null without a name.
  const Value* named(const std::string& format, std::size_t& at) const {
    if (at >= format.size() || format[at] != '(') return nullptr;
    const std::size_t close = format.find(')', at);
    if (close == std::string::npos) throw TemplateError("incomplete format key");
    if (!value_.is(Kind::kDict)) throw TemplateError("format requires a mapping");
    const std::string key = format.substr(at + 1, close - at - 1);
    const Value* found = value_.as_dict().find(key);
    if (found == nullptr) throw TemplateError("format has no value for '" + key + "'");
    at = close + 1;
    return found;
  }
  const Value& next() {
    if (next_ >= items_.size()) throw TemplateError("not enough arguments for format string");
    return items_[next_++];
  }
  void require_all_used() const {
    const bool by_name = value_.is(Kind::kDict) || value_.is(Kind::kList);  // Python's criterion
    if (next_ < items_.size() && !by_name) {
      throw TemplateError("not all arguments converted during string formatting");
    }
  }

 private:
  const Value& value_;
  const List items_;
  std::size_t next_ = 0;
};

/// Formats the conversion whose text begins at `at`, after the "%"; `at` becomes its last byte.
std::string percent_conversion(const std::string& format, std::size_t& at,
                               PercentArguments& arguments) {
  const Value* named = arguments.named(format, at);
  const Form form = percent_form(format, at);
  if (form.type == '%') return "%";
  if (!is_one_of(form.type, "sracdiuxXoeEfFgG")) {
    throw TemplateError(std::string("unsupported format character '") + form.type + "'");
  }
  return percent_value(named != nullptr ? *named : arguments.next(), form);
}

/// Formats the field between the braces.
std::string brace_replacement(const std::string& whole, const Args& args, std::size_t& next) {
  const std::size_t colon = std::min(whole.find(':'), whole.size());
  const std::size_t bang = std::min(whole.find('!'), colon);
  const std::string conversion = whole.substr(bang, colon - bang);
  const std::string spec = colon < whole.size() ? whole.substr(colon + 1) : "";
  const Value& v = brace_field(whole.substr(0, bang), args, next);
  if (conversion == "") return brace_value(v, spec);
  if (conversion == "!r") return brace_value(Value::string(v.repr()), spec);
  if (conversion == "!s") return brace_value(Value::string(v.to_string()), spec);
  throw TemplateError("format field '" + whole + "' is not supported");
}

}  // namespace

std::string percent_format(const std::string& format, const Value& value) {
  PercentArguments arguments(value);
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '%') {
      append_bounded(out, percent_conversion(format, ++i, arguments));
      continue;
    }
    const std::size_t stop = std::min(format.find('%', i), format.size());
    append_bounded(out, std::string_view(format).substr(i, stop - i));
    i = stop - 1;
  }
  arguments.require_all_used();
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
      append_bounded(out, brace_replacement(format.substr(i + 1, close - i - 1), args, next));
      i = close;
    }
  }
  return out;
}

}  // namespace holdfast::text::jinja
