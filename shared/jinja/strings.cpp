#include "shared/jinja/strings.h"

#include <utf8proc.h>

#include <algorithm>
#include <map>

#include "shared/jinja/builtins.h"
#include "shared/jinja/format.h"

namespace holdfast::text::jinja {

std::int32_t point_of(std::string_view utf8) {
  utf8proc_int32_t c = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(utf8.data()),
                   static_cast<utf8proc_ssize_t>(utf8.size()), &c);
  return c;
}
std::string utf8_of(std::int32_t c) {
  utf8proc_uint8_t buffer[4];
  const auto n = utf8proc_encode_char(c, buffer);
  return std::string(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(n));
}

namespace {

// Characters whose upper case in Python is several characters (Unicode's SpecialCasing,
// unconditional).
const std::map<std::int32_t, std::string_view>& long_upper() {
  static const std::map<std::int32_t, std::string_view> table = {
      {0xDF, "SS"},    {0x149, "\u02BCN"}, {0x1F0, "J\u030C"}, {0x587, "\u0535\u0552"},
      {0xFB00, "FF"},  {0xFB01, "FI"},     {0xFB02, "FL"},     {0xFB03, "FFI"},
      {0xFB04, "FFL"}, {0xFB05, "ST"},     {0xFB06, "ST"},
  };
  return table;
}

std::string upper_of(std::int32_t p) {
  const auto it = long_upper().find(p);
  return it != long_upper().end() ? std::string(it->second) : utf8_of(utf8proc_toupper(p));
}
std::string lower_of(std::int32_t p) {
  return p == 0x130 ? "i\u0307" : utf8_of(utf8proc_tolower(p));
}
std::string title_of(std::int32_t p) {
  const auto it = long_upper().find(p);
  if (it == long_upper().end()) return utf8_of(utf8proc_totitle(p));
  if (p == 0x149) return std::string(it->second);
  const std::vector<std::string> points = code_points(it->second);
  std::string out = points[0];
  for (std::size_t i = 1; i < points.size(); ++i) out += lower_of(point_of(points[i]));
  return out;
}

template <class Map>
std::string map_points(std::string_view text, Map map) {
  std::string out;
  for (const std::string& c : code_points(text)) append_bounded(out, map(point_of(c)));
  return out;
}

bool is_cased(std::int32_t p) {
  const auto c = utf8proc_category(p);
  return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}
bool is_decimal(std::int32_t p) {
  return utf8proc_category(p) == UTF8PROC_CATEGORY_ND;
}
/// Returns true for decimal digits, superscript and subscript ones included.
bool is_digit(std::int32_t p) {
  return is_decimal(p) || p == 0xB2 || p == 0xB3 || p == 0xB9 || p == 0x2070 ||
         (p >= 0x2074 && p <= 0x2079) || (p >= 0x2080 && p <= 0x2089);
}

bool is_white(std::string_view c) {
  const std::int32_t p = point_of(c);
  if ((p >= 9 && p <= 13) || (p >= 0x1C && p <= 0x20) || p == 0x85) return true;
  const auto category = utf8proc_category(p);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

std::string title(std::string_view text) {
  bool in_word = false;
  return map_points(text, [&](std::int32_t p) {
    std::string mapped = in_word ? lower_of(p) : title_of(p);
    in_word = is_cased(p);
    return mapped;
  });
}

/// Returns true if upper case begins each word and is nowhere else; at least one word.
bool is_title(std::string_view text) {
  bool in_word = false;
  bool found = false;
  for (const std::string& c : code_points(text)) {
    const std::int32_t p = point_of(c);
    const auto category = utf8proc_category(p);
    if (category == UTF8PROC_CATEGORY_LL ? !in_word : is_cased(p) && in_word) return false;
    in_word = is_cased(p);
    found = found || in_word;
  }
  return found;
}

bool is_identifier(std::string_view text) {
  bool first = true;
  for (const std::string& c : code_points(text)) {
    const std::int32_t p = point_of(c);
    if (p != '_' && !is_letter(p) && (first || !is_decimal(p))) return false;
    first = false;
  }
  return !first;
}

bool all_points(std::string_view text, bool (*test)(std::int32_t)) {
  const auto points = code_points(text);
  return !points.empty() && std::all_of(points.begin(), points.end(),
                                        [&](const std::string& c) { return test(point_of(c)); });
}

const std::string& text_arg(const Args& args, std::size_t i, std::string_view name) {
  const Value* v = args.get(i, name);
  if (v == nullptr || !v->is(Kind::kString)) {
    throw TemplateError("argument '" + std::string(name) + "' must be a string");
  }
  return v->as_string();
}
std::int64_t int_arg(const Args& args, std::size_t i, std::string_view name,
                     std::int64_t fallback) {
  const Value* v = args.get(i, name);
  if (v == nullptr || v->is(Kind::kNone)) return fallback;
  if (!v->is_number() || v->is(Kind::kFloat)) {
    throw TemplateError(std::string("'") + v->type_name() +
                        "' object cannot be interpreted as an integer");
  }
  return v->as_int();
}

List to_list(std::vector<std::string> parts) {
  List out;
  for (std::string& p : parts) out.push_back(Value::string(std::move(p)));
  return out;
}

Value strip_method(const std::string& s, const Args& args, bool left, bool right) {
  const Value* set = args.get(0, "chars");
  const bool given = set != nullptr && set->is(Kind::kString);
  if (given && set->as_string().empty()) return Value::string(s);
  return Value::string(strip(s, given ? set->as_string() : "", left, right));
}

Value split_method(const std::string& s, const Args& args) {
  const Value* separator = args.get(0, "sep");
  const bool by_text = separator != nullptr && separator->is(Kind::kString);
  if (by_text && separator->as_string().empty()) throw TemplateError("empty separator");
  return Value::list(to_list(
      split(s, by_text ? &separator->as_string() : nullptr, int_arg(args, 1, "maxsplit", -1))));
}

/// Implements str.rsplit(None, max): splits at runs of white space, from the right.
std::vector<std::string> split_words_from_right(std::string_view text, std::int64_t max) {
  const std::vector<std::string> points = code_points(text);
  std::vector<std::string> out;
  const auto part = [&](std::size_t from, std::size_t to) {
    std::string word;
    for (; from < to; ++from) word += points[from];
    return word;
  };
  for (std::size_t end = points.size();; --max) {
    while (end > 0 && is_white(points[end - 1])) --end;
    if (end == 0) break;
    std::size_t from = max == 0 ? 0 : end;
    while (from > 0 && !is_white(points[from - 1])) --from;
    out.push_back(part(from, end));
    end = from;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

Value rsplit_method(const std::string& s, const Args& args) {
  const Value* given = args.get(0, "sep");
  std::int64_t left = int_arg(args, 1, "maxsplit", -1);
  if (given == nullptr || given->is(Kind::kNone)) {
    return Value::list(to_list(split_words_from_right(s, left)));
  }
  const std::string& separator = text_arg(args, 0, "sep");
  if (separator.empty()) throw TemplateError("empty separator");
  std::vector<std::string> parts;
  std::size_t end = s.size();
  while (left != 0) {
    const std::size_t at =
        end < separator.size() ? std::string::npos : s.rfind(separator, end - separator.size());
    if (at == std::string::npos) break;
    parts.push_back(s.substr(at + separator.size(), end - at - separator.size()));
    end = at;
    --left;
  }
  parts.push_back(s.substr(0, end));
  std::reverse(parts.begin(), parts.end());
  return Value::list(to_list(std::move(parts)));
}

Value partition_method(const std::string& s, const Args& args, bool last) {
  const std::string& separator = text_arg(args, 0, "sep");
  if (separator.empty()) throw TemplateError("empty separator");
  const std::size_t at = last ? s.rfind(separator) : s.find(separator);
  const Value whole = Value::string(s);
  const Value none = Value::string("");
  if (at == std::string::npos)
    return Value::tuple({last ? none : whole, none, last ? whole : none});
  return Value::tuple({Value::string(s.substr(0, at)), Value::string(separator),
                       Value::string(s.substr(at + separator.size()))});
}

/// The part of the text between the arguments `i` and `i + 1` (start, end), with the rules of a
/// slice.
struct Window {
  std::string_view text;
  std::int64_t start = 0;  // in code points
  bool empty = false;      // start is after the end: not even "" is found
};
Window window_of(std::string_view s, const Args& args, std::size_t i) {
  if (args.positional.size() <= i) return {s};
  const std::vector<std::string> points = code_points(s);
  const auto n = static_cast<std::int64_t>(points.size());
  const auto bound = [&](std::size_t at, std::int64_t fallback) {
    const std::int64_t b = int_arg(args, at, "", fallback);
    return b < 0 ? std::max<std::int64_t>(b + n, 0) : b;
  };
  const std::int64_t start = bound(i, 0);
  const std::int64_t end = std::min(bound(i + 1, n), n);
  if (start > end) return {s.substr(0, 0), start, true};
  std::size_t from = 0;
  std::size_t size = 0;
  for (std::int64_t k = 0; k < end; ++k) {
    (k < start ? from : size) += points[static_cast<std::size_t>(k)].size();
  }
  return {s.substr(from, size), start};
}

Value affix_method(const std::string& s, const Args& args, bool start) {
  if (args.positional.empty()) throw TemplateError("startswith and endswith need an argument");
  const Value& what = args.positional[0];
  const List options = what.is(Kind::kTuple) ? what.as_list() : List{what};
  const Window window = window_of(s, args, 1);
  for (const Value& v : options) {
    if (!v.is(Kind::kString)) {
      throw TemplateError(std::string(start ? "startswith" : "endswith") +
                          " first arg must be str or a tuple of str, not " + v.type_name());
    }
    if (window.empty) continue;
    if (start ? window.text.starts_with(v.as_string()) : window.text.ends_with(v.as_string()))
      return Value::boolean(true);
  }
  return Value::boolean(false);
}

Value find_method(const std::string& s, const Args& args, bool last) {
  const std::string& what = text_arg(args, 0, "sub");
  const Window window = window_of(s, args, 1);
  const std::size_t at = window.empty ? std::string::npos
                         : last       ? window.text.rfind(what)
                                      : window.text.find(what);
  if (at == std::string::npos) return Value::integer(-1);
  return Value::integer(window.start + point_count(window.text.substr(0, at)));
}

Value index_method(const std::string& s, const Args& args, bool last) {
  Value at = find_method(s, args, last);
  if (at.as_int() < 0) throw TemplateError("substring not found");
  return at;
}

Value count_method(const std::string& s, const Args& args) {
  const std::string& what = text_arg(args, 0, "sub");
  const Window window = window_of(s, args, 1);
  const std::string_view text = window.text;
  if (what.empty()) return Value::integer(window.empty ? 0 : point_count(text) + 1);
  std::int64_t n = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos;
       at = text.find(what, at + what.size())) {
    ++n;
  }
  return Value::integer(n);
}

enum class Side : std::uint8_t { kLeft, kRight, kCenter };

Value justify_method(const std::string& s, const Args& args, Side side) {
  const Value* width = args.get(0, "width");
  if (width == nullptr || !width->is(Kind::kInt)) throw TemplateError("a width must be an integer");
  const Value* fill = args.get(1, "fillchar");
  const std::string with = fill != nullptr ? text_arg(args, 1, "fillchar") : " ";
  if (point_count(with) != 1) {
    throw TemplateError("the fill character must be exactly one character long");
  }
  const std::int64_t missing = std::max<std::int64_t>(width->as_int() - point_count(s), 0);
  // Python's center puts the odd one left if the width is odd.
  const std::int64_t before = side == Side::kLeft ? 0
                              : side == Side::kRight
                                  ? missing
                                  : missing / 2 + (missing & width->as_int() & 1);
  return Value::string(pad(s, before, missing - before, with));
}

Value zfill_method(const std::string& s, const Args& args) {
  if (args.positional.empty() || !args.positional[0].is(Kind::kInt)) {
    throw TemplateError("a width must be an integer");
  }
  const bool sign = s.starts_with('-') || s.starts_with('+');
  const std::int64_t missing = args.positional[0].as_int() - point_count(s);
  return Value::string(s.substr(0, sign ? 1 : 0) + pad(s.substr(sign ? 1 : 0), missing, 0, "0"));
}

Value expandtabs_method(const std::string& s, const Args& args) {
  const std::int64_t size = int_arg(args, 0, "tabsize", 8);
  std::string out;
  std::int64_t column = 0;
  for (const std::string& c : code_points(s)) {
    if (c == "\t") {
      const std::int64_t n = size > 0 ? size - column % size : 0;
      out = pad(out, 0, n, " ");
      column += n;
    } else {
      append_bounded(out, c);
      column = c == "\n" || c == "\r" ? 0 : column + 1;
    }
  }
  return Value::string(std::move(out));
}

/// Returns true where Python's splitlines ends a line.
bool is_line_end(std::string_view c) {
  const std::int32_t p = point_of(c);
  return (p >= 10 && p <= 13) || (p >= 0x1C && p <= 0x1E) || p == 0x85 || p == 0x2028 ||
         p == 0x2029;
}

Value splitlines_method(const std::string& s, const Args& args) {
  const Value* keepends = args.get(0, "keepends");
  return Value::list(to_list(split_lines(s, keepends != nullptr && keepends->truthy())));
}

Value join_method(const std::string& s, const Args& args) {
  if (args.positional.empty()) throw TemplateError("join needs an iterable");
  std::string out;
  bool first = true;
  const List items = iterate(args.positional[0]);
  for (const Value& v : items) {
    if (!v.is(Kind::kString)) {
      throw TemplateError(std::string("sequence item: expected str instance, ") + v.type_name() +
                          " found");
    }
    if (!first) append_bounded(out, s);
    first = false;
    append_bounded(out, v.as_string());
  }
  return Value::string(std::move(out));
}

Value affix_removed(const std::string& s, const Args& args, bool prefix) {
  const std::string& what = text_arg(args, 0, "affix");
  if (prefix && s.starts_with(what)) return Value::string(s.substr(what.size()));
  if (!prefix && s.ends_with(what)) return Value::string(s.substr(0, s.size() - what.size()));
  return Value::string(s);
}

using Method = Value (*)(const std::string&, const Args&);

struct NamedMethod {
  std::string_view name;
  Method method;
};

constexpr NamedMethod kStringMethods[] = {
    {"upper", [](const std::string& s, const Args&) { return Value::string(to_upper(s)); }},
    {"lower", [](const std::string& s, const Args&) { return Value::string(to_lower(s)); }},
    {"casefold",
     [](const std::string& s, const Args&) {
       return Value::string(map_points(s, [](std::int32_t p) {
         return long_upper().contains(p) ? to_lower(upper_of(p)) : lower_of(p);
       }));
     }},
    {"swapcase",
     [](const std::string& s, const Args&) {
       return Value::string(map_points(s, [](std::int32_t p) {
         return utf8proc_category(p) == UTF8PROC_CATEGORY_LU ? lower_of(p) : upper_of(p);
       }));
     }},
    {"partition",
     [](const std::string& s, const Args& a) { return partition_method(s, a, false); }},
    {"rpartition",
     [](const std::string& s, const Args& a) { return partition_method(s, a, true); }},
    {"ljust",
     [](const std::string& s, const Args& a) { return justify_method(s, a, Side::kLeft); }},
    {"rjust",
     [](const std::string& s, const Args& a) { return justify_method(s, a, Side::kRight); }},
    {"center",
     [](const std::string& s, const Args& a) { return justify_method(s, a, Side::kCenter); }},
    {"zfill", zfill_method},
    {"expandtabs", expandtabs_method},
    {"istitle", [](const std::string& s, const Args&) { return Value::boolean(is_title(s)); }},
    {"isidentifier",
     [](const std::string& s, const Args&) { return Value::boolean(is_identifier(s)); }},
    {"isascii",
     [](const std::string& s, const Args&) {
       return Value::boolean(
           std::all_of(s.begin(), s.end(), [](char c) { return (c & 0x80) == 0; }));
     }},
    {"isdecimal",
     [](const std::string& s, const Args&) { return Value::boolean(all_points(s, is_decimal)); }},
    {"isnumeric",
     [](const std::string& s, const Args&) { return Value::boolean(all_points(s, is_numeric)); }},
    {"title", [](const std::string& s, const Args&) { return Value::string(title(s)); }},
    {"capitalize", [](const std::string& s, const Args&) { return Value::string(capitalize(s)); }},
    {"strip", [](const std::string& s, const Args& a) { return strip_method(s, a, true, true); }},
    {"lstrip", [](const std::string& s, const Args& a) { return strip_method(s, a, true, false); }},
    {"rstrip", [](const std::string& s, const Args& a) { return strip_method(s, a, false, true); }},
    {"startswith", [](const std::string& s, const Args& a) { return affix_method(s, a, true); }},
    {"endswith", [](const std::string& s, const Args& a) { return affix_method(s, a, false); }},
    {"split", split_method},
    {"rsplit", rsplit_method},
    {"splitlines", splitlines_method},
    {"join", join_method},
    {"count", count_method},
    {"format",
     [](const std::string& s, const Args& a) { return Value::string(brace_format(s, a)); }},
    {"find", [](const std::string& s, const Args& a) { return find_method(s, a, false); }},
    {"rfind", [](const std::string& s, const Args& a) { return find_method(s, a, true); }},
    {"index", [](const std::string& s, const Args& a) { return index_method(s, a, false); }},
    {"rindex", [](const std::string& s, const Args& a) { return index_method(s, a, true); }},
    {"removeprefix", [](const std::string& s, const Args& a) { return affix_removed(s, a, true); }},
    {"removesuffix",
     [](const std::string& s, const Args& a) { return affix_removed(s, a, false); }},
    {"replace",
     [](const std::string& s, const Args& a) {
       // One after the other: which of several wrong arguments is named must not be the compiler's.
       const std::string from = text_arg(a, 0, "old");
       const std::string to = text_arg(a, 1, "new");
       return Value::string(replace_all(s, from, to, int_arg(a, 2, "count", -1)));
     }},
    {"isdigit",
     [](const std::string& s, const Args&) { return Value::boolean(all_points(s, is_digit)); }},
    {"isalpha",
     [](const std::string& s, const Args&) { return Value::boolean(all_points(s, is_letter)); }},
    {"isalnum",
     [](const std::string& s, const Args&) {
       return Value::boolean(
           all_points(s, [](std::int32_t p) { return is_letter(p) || is_numeric(p); }));
     }},
    {"isspace",
     [](const std::string& s, const Args&) {
       return Value::boolean(!s.empty() && strip(s, "", true, true).empty());
     }},
    {"isupper", [](const std::string& s,
                   const Args&) { return Value::boolean(s == to_upper(s) && s != to_lower(s)); }},
    {"islower", [](const std::string& s,
                   const Args&) { return Value::boolean(s == to_lower(s) && s != to_upper(s)); }},
};

Method string_method(std::string_view name) {
  const auto* const it = std::find_if(std::begin(kStringMethods), std::end(kStringMethods),
                                      [&](const NamedMethod& m) { return m.name == name; });
  return it != std::end(kStringMethods) ? it->method : nullptr;
}

/// Implements dict.get.
Value get_or_default(const Value& object, const Args& args) {
  if (args.positional.empty()) throw TemplateError("get expected at least 1 argument, got 0");
  const Value v = get_item(object, args.positional[0]);
  if (!v.is(Kind::kUndefined)) return v;
  const Value* fallback = args.get(1, "default");
  return fallback != nullptr ? *fallback : Value::none();
}

/// Returns what `part` makes of each entry.
template <typename Part>
Value list_of_entries(const Value& object, Part part) {
  List out;
  for (const auto& [k, v] : object.as_dict().items()) out.push_back(part(k, v));
  return Value::list(std::move(out));
}

Value keys_of(const Value& object, const Args&) {
  return list_of_entries(object, [](const Value& k, const Value&) { return k; });
}

Value values_of(const Value& object, const Args&) {
  return list_of_entries(object, [](const Value&, const Value& v) { return v; });
}

Value items_of(const Value& object, const Args&) {
  return list_of_entries(object, [](const Value& k, const Value& v) {
    return Value::tuple({k, v});
  });
}

using ObjectMethod = Value (*)(const Value& object, const Args& args);

Value bind(const Value& object, ObjectMethod method) {
  return Value::function([object, method](const Args& args) { return method(object, args); });
}

Value dict_method(const Value& object, std::string_view name) {
  if (name == "get") return bind(object, get_or_default);
  if (name == "keys") return bind(object, keys_of);
  if (name == "values") return bind(object, values_of);
  if (name == "items") return bind(object, items_of);
  if (name == "copy")
    return Value::function([object](const Args&) { return Value::dict(object.as_dict()); });
  return Value();
}

/// Refuses methods that change their object, like Jinja2's immutable sandbox.
Value refused_method(const Value& object, std::string_view name) {
  static constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr std::string_view kList[] = {"append", "clear",  "extend",  "insert",
                                               "pop",    "remove", "reverse", "sort"};
  const auto listed_in = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  if (!(object.is(Kind::kDict) && listed_in(kDict)) &&
      !(object.is(Kind::kList) && listed_in(kList))) {
    return Value();
  }
  const std::string what = "access to attribute '" + std::string(name) + "' of '" +
                           object.type_name() + "' object is unsafe";
  return Value::function([what](const Args&) -> Value { throw TemplateError(what); });
}

/// Implements list.index.
Value index_in_list(const Value& object, const Args& args) {
  if (args.positional.empty()) throw TemplateError("index and count need an argument");
  const List& list = object.as_list();
  const auto size = static_cast<std::int64_t>(list.size());
  const std::int64_t start = int_arg(args, 1, "", 0);
  const std::int64_t from = start < 0 ? std::max<std::int64_t>(start + size, 0) : start;
  for (auto i = static_cast<std::size_t>(from); i < list.size(); ++i) {
    if (list[i].equals(args.positional[0])) return Value::integer(static_cast<std::int64_t>(i));
  }
  throw TemplateError(args.positional[0].repr() + " is not in list");
}

/// Implements list.count.
Value count_in_list(const Value& object, const Args& args) {
  if (args.positional.empty()) throw TemplateError("index and count need an argument");
  const List& list = object.as_list();
  return Value::integer(std::count_if(list.begin(), list.end(), [&](const Value& item) {
    return item.equals(args.positional[0]);
  }));
}

Value list_method(const Value& object, std::string_view name) {
  if (name == "copy" && object.is(Kind::kList)) {
    return Value::function([object](const Args&) { return Value::list(object.as_list()); });
  }
  if (name == "index") return bind(object, index_in_list);
  if (name == "count") return bind(object, count_in_list);
  return Value();
}

}  // namespace

std::string to_lower(std::string_view text) {
  return map_points(text, lower_of);
}
std::string to_upper(std::string_view text) {
  return map_points(text, upper_of);
}
std::string capitalize(std::string_view text) {
  bool first = true;
  return map_points(text, [&](std::int32_t p) {
    std::string mapped = first ? title_of(p) : lower_of(p);
    first = false;
    return mapped;
  });
}

bool is_letter(std::int32_t point) {
  const auto c = utf8proc_category(point);
  return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}
bool is_numeric(std::int32_t point) {
  const auto c = utf8proc_category(point);
  return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

std::int64_t point_count(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

std::string pad(std::string_view text, std::int64_t before, std::int64_t after,
                std::string_view fill) {
  std::string out;
  for (; before > 0; --before) append_bounded(out, fill);
  append_bounded(out, text);
  for (; after > 0; --after) append_bounded(out, fill);
  return out;
}

std::vector<std::string> split_lines(std::string_view text, bool keepends) {
  std::vector<std::string> out;
  std::string line;
  const std::vector<std::string> points = code_points(text);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!is_line_end(points[i])) {
      line += points[i];
      continue;
    }
    if (keepends) line += points[i];
    if (points[i] == "\r" && i + 1 < points.size() && points[i + 1] == "\n") {
      ++i;
      if (keepends) line += points[i];
    }
    out.push_back(std::exchange(line, {}));
  }
  if (!line.empty()) out.push_back(std::move(line));
  return out;
}

std::string strip(std::string_view text, std::string_view set, bool left, bool right) {
  const std::vector<std::string> points = code_points(text);
  const std::vector<std::string> chars = code_points(set);
  const auto drops = [&](const std::string& c) {
    return set.empty() ? is_white(c) : std::find(chars.begin(), chars.end(), c) != chars.end();
  };
  std::size_t from = 0;
  std::size_t to = points.size();
  while (left && from < to && drops(points[from])) ++from;
  while (right && to > from && drops(points[to - 1])) --to;
  std::string out;
  for (std::size_t i = from; i < to; ++i) out += points[i];
  return out;
}

namespace {

std::vector<std::string> split_at(std::string_view text, std::string_view separator,
                                  std::int64_t max) {
  std::vector<std::string> out;
  std::size_t from = 0;
  for (std::size_t at = text.find(separator); at != std::string_view::npos && max != 0;
       at = text.find(separator, from), --max) {
    out.emplace_back(text.substr(from, at - from));
    from = at + separator.size();
  }
  out.emplace_back(text.substr(from));
  return out;
}

std::vector<std::string> split_at_white(std::string_view text, std::int64_t max) {
  std::vector<std::string> out;
  const std::vector<std::string> points = code_points(text);
  std::size_t i = 0;
  for (;;) {
    while (i < points.size() && is_white(points[i])) ++i;
    if (i == points.size()) return out;
    std::string word;
    if (max == 0) {
      for (; i < points.size(); ++i) word += points[i];
      out.push_back(strip(word, "", false, true));
      return out;
    }
    for (; i < points.size() && !is_white(points[i]); ++i) word += points[i];
    out.push_back(std::move(word));
    --max;
  }
}

}  // namespace

std::vector<std::string> split(std::string_view text, const std::string* separator,
                               std::int64_t max) {
  return separator != nullptr ? split_at(text, *separator, max) : split_at_white(text, max);
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to,
                        std::int64_t max) {
  std::string out;
  if (from.empty()) {  // Python puts `to` around every code point
    for (const std::string& c : code_points(text)) {
      if (max != 0) append_bounded(out, to), --max;
      append_bounded(out, c);
    }
    if (max != 0) append_bounded(out, to);
    return out;
  }
  std::size_t at = 0;
  for (std::size_t hit = text.find(from); hit != std::string_view::npos && max != 0;
       hit = text.find(from, at), --max) {
    append_bounded(out, text.substr(at, hit - at));
    append_bounded(out, to);
    at = hit + from.size();
  }
  out += text.substr(at);
  return out;
}

Value bound_method(const Value& object, std::string_view name) {
  if (object.is(Kind::kString)) {
    const Method method = string_method(name);
    if (method == nullptr) return Value();
    return Value::function(
        [object, method](const Args& args) { return method(object.as_string(), args); });
  }
  Value refused = refused_method(object, name);
  if (!refused.is(Kind::kUndefined)) return refused;
  if (object.is(Kind::kDict)) return dict_method(object, name);
  if (object.is_sequence()) return list_method(object, name);
  return Value();
}

}  // namespace holdfast::text::jinja
