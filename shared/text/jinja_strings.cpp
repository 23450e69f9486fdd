#include "shared/text/jinja_strings.h"

#include <utf8proc.h>

#include <algorithm>
#include <map>

#include "shared/text/jinja_builtins.h"

namespace holdfast::text::jinja {
namespace {

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

template <class Map>
std::string map_points(std::string_view text, Map map) {
  std::string out;
  for (const std::string& c : code_points(text)) out += utf8_of(map(point_of(c)));
  return out;
}

bool is_white(std::string_view c) {
  const std::int32_t p = point_of(c);
  if ((p >= 9 && p <= 13) || (p >= 0x1C && p <= 0x20) || p == 0x85) return true;
  const auto category = utf8proc_category(p);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool is_letter(std::int32_t p) {
  const auto c = utf8proc_category(p);
  return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

std::string capitalize(std::string_view text) {
  bool first = true;
  return map_points(text, [&](std::int32_t p) {
    const std::int32_t q = first ? utf8proc_totitle(p) : utf8proc_tolower(p);
    first = false;
    return q;
  });
}

std::string title(std::string_view text) {
  bool in_word = false;
  return map_points(text, [&](std::int32_t p) {
    const std::int32_t q = in_word ? utf8proc_tolower(p) : utf8proc_totitle(p);
    in_word = is_letter(p);
    return q;
  });
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
  return v != nullptr && v->is_number() ? v->as_int() : fallback;
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

Value affix_method(const std::string& s, const Args& args, bool start) {
  if (args.positional.empty()) throw TemplateError("startswith and endswith need an argument");
  const Value& what = args.positional[0];
  const List options = what.is(Kind::kTuple) ? what.as_list() : List{what};
  for (const Value& v : options) {
    if (!v.is(Kind::kString)) {
      throw TemplateError(std::string("startswith first arg must be str or a tuple of str, not ") +
                          v.type_name());
    }
    if (start ? s.starts_with(v.as_string()) : s.ends_with(v.as_string()))
      return Value::boolean(true);
  }
  return Value::boolean(false);
}

Value split_method(const std::string& s, const Args& args) {
  const Value* separator = args.get(0, "sep");
  const bool by_text = separator != nullptr && separator->is(Kind::kString);
  if (by_text && separator->as_string().empty()) throw TemplateError("empty separator");
  return Value::list(to_list(
      split(s, by_text ? &separator->as_string() : nullptr, int_arg(args, 1, "maxsplit", -1))));
}

Value rsplit_method(const std::string& s, const Args& args) {
  const std::string& separator = text_arg(args, 0, "sep");
  if (separator.empty()) throw TemplateError("empty separator");
  std::int64_t left = int_arg(args, 1, "maxsplit", -1);
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

Value find_method(const std::string& s, const Args& args, bool last) {
  const std::string& what = text_arg(args, 0, "sub");
  const std::size_t at = last ? s.rfind(what) : s.find(what);
  if (at == std::string::npos) return Value::integer(-1);
  return Value::integer(
      static_cast<std::int64_t>(code_points(std::string_view(s).substr(0, at)).size()));
}

Value count_method(const std::string& s, const Args& args) {
  const std::string& what = text_arg(args, 0, "sub");
  if (what.empty()) return Value::integer(static_cast<std::int64_t>(code_points(s).size()) + 1);
  std::int64_t n = 0;
  for (std::size_t at = s.find(what); at != std::string::npos; at = s.find(what, at + what.size()))
    ++n;
  return Value::integer(n);
}

Value splitlines_method(const std::string& s, const Args& args) {
  const Value* keep = args.get(0, "keepends");
  List out;
  for (std::size_t from = 0; from < s.size();) {
    std::size_t end = s.find_first_of("\r\n", from);
    std::size_t next = end;
    if (end == std::string::npos) {
      end = next = s.size();
    } else {
      next = end + (s[end] == '\r' && end + 1 < s.size() && s[end + 1] == '\n' ? 2 : 1);
    }
    const bool with_end = keep != nullptr && keep->truthy();
    out.push_back(Value::string(s.substr(from, (with_end ? next : end) - from)));
    from = next;
  }
  return Value::list(std::move(out));
}

Value join_method(const std::string& s, const Args& args) {
  if (args.positional.empty()) throw TemplateError("join needs an iterable");
  std::string out;
  bool first = true;
  for (const Value& v : iterate(args.positional[0])) {
    if (!v.is(Kind::kString)) {
      throw TemplateError(std::string("sequence item: expected str instance, ") + v.type_name() +
                          " found");
    }
    if (!first) out += s;
    first = false;
    out += v.as_string();
  }
  return Value::string(std::move(out));
}

Value affix_removed(const std::string& s, const Args& args, bool prefix) {
  const std::string& what = text_arg(args, 0, "affix");
  if (prefix && s.starts_with(what)) return Value::string(s.substr(what.size()));
  if (!prefix && s.ends_with(what)) return Value::string(s.substr(0, s.size() - what.size()));
  return Value::string(s);
}

/// "{} and {0} and {name}": plain fields only; attribute access in a format is refused (sandbox).
Value format_method(const std::string& s, const Args& args) {
  std::string out;
  std::size_t next = 0;
  for (std::size_t i = 0; i < s.size(); ++i) {
    const bool doubled = i + 1 < s.size() && s[i + 1] == s[i];
    if ((s[i] == '{' || s[i] == '}') && doubled) {
      out += s[i++];
    } else if (s[i] != '{') {
      out += s[i];
    } else {
      const std::size_t close = s.find('}', i);
      if (close == std::string::npos)
        throw TemplateError("Single '{' encountered in format string");
      const std::string field = s.substr(i + 1, close - i - 1);
      if (field.find_first_of(".[:!") != std::string::npos) {
        throw TemplateError("format field '" + field + "' is not supported");
      }
      const bool digits =
          !field.empty() && field.find_first_not_of("0123456789") == std::string::npos;
      const std::size_t index = field.empty() ? next++
                                : digits      ? std::strtoul(field.c_str(), nullptr, 10)
                                              : 0;
      const Value* v = field.empty() || digits
                           ? (index < args.positional.size() ? &args.positional[index] : nullptr)
                           : args.named.find(field);
      if (v == nullptr) throw TemplateError("format has no value for field '" + field + "'");
      out += v->to_string();
      i = close;
    }
  }
  return Value::string(std::move(out));
}

using Method = Value (*)(const std::string&, const Args&);

const std::map<std::string_view, Method>& string_methods() {
  static const std::map<std::string_view, Method> table = {
      {"upper", [](const std::string& s, const Args&) { return Value::string(to_upper(s)); }},
      {"lower", [](const std::string& s, const Args&) { return Value::string(to_lower(s)); }},
      {"casefold", [](const std::string& s, const Args&) { return Value::string(to_lower(s)); }},
      {"title", [](const std::string& s, const Args&) { return Value::string(title(s)); }},
      {"capitalize",
       [](const std::string& s, const Args&) { return Value::string(capitalize(s)); }},
      {"strip", [](const std::string& s, const Args& a) { return strip_method(s, a, true, true); }},
      {"lstrip",
       [](const std::string& s, const Args& a) { return strip_method(s, a, true, false); }},
      {"rstrip",
       [](const std::string& s, const Args& a) { return strip_method(s, a, false, true); }},
      {"startswith", [](const std::string& s, const Args& a) { return affix_method(s, a, true); }},
      {"endswith", [](const std::string& s, const Args& a) { return affix_method(s, a, false); }},
      {"split", split_method},
      {"rsplit", rsplit_method},
      {"splitlines", splitlines_method},
      {"join", join_method},
      {"count", count_method},
      {"format", format_method},
      {"find", [](const std::string& s, const Args& a) { return find_method(s, a, false); }},
      {"rfind", [](const std::string& s, const Args& a) { return find_method(s, a, true); }},
      {"index",
       [](const std::string& s, const Args& a) {
         Value at = find_method(s, a, false);
         if (at.as_int() < 0) throw TemplateError("substring not found");
         return at;
       }},
      {"removeprefix",
       [](const std::string& s, const Args& a) { return affix_removed(s, a, true); }},
      {"removesuffix",
       [](const std::string& s, const Args& a) { return affix_removed(s, a, false); }},
      {"replace",
       [](const std::string& s, const Args& a) {
         return Value::string(replace_all(s, text_arg(a, 0, "old"), text_arg(a, 1, "new"),
                                          int_arg(a, 2, "count", -1)));
       }},
      {"isdigit",
       [](const std::string& s, const Args&) {
         return Value::boolean(all_points(
             s, [](std::int32_t p) { return utf8proc_category(p) == UTF8PROC_CATEGORY_ND; }));
       }},
      {"isalpha",
       [](const std::string& s, const Args&) { return Value::boolean(all_points(s, is_letter)); }},
      {"isalnum",
       [](const std::string& s, const Args&) {
         return Value::boolean(all_points(s, [](std::int32_t p) {
           return is_letter(p) || utf8proc_category(p) == UTF8PROC_CATEGORY_ND;
         }));
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
  return table;
}

Value dict_method(const Value& object, std::string_view name) {
  if (name == "get") {
    return Value::function([object](const Args& args) {
      if (args.positional.empty()) throw TemplateError("get expected at least 1 argument, got 0");
      const Value v = get_item(object, args.positional[0]);
      if (!v.is(Kind::kUndefined)) return v;
      const Value* fallback = args.get(1, "default");
      return fallback != nullptr ? *fallback : Value::none();
    });
  }
  const int part = name == "keys" ? 0 : name == "values" ? 1 : name == "items" ? 2 : -1;
  if (part >= 0) {
    return Value::function([object, part](const Args&) {
      List out;
      for (const auto& [k, v] : object.as_dict().items()) {
        out.push_back(part == 0   ? Value::string(k)
                      : part == 1 ? v
                                  : Value::tuple({Value::string(k), v}));
      }
      return Value::list(std::move(out));
    });
  }
  if (name == "copy") return Value::function([object](const Args&) { return object; });
  return Value();
}

/// Methods that change their object are refused, as in Jinja2's immutable sandbox.
Value refused_method(const Value& object, std::string_view name) {
  static constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr std::string_view kList[] = {"append", "clear",  "extend",  "insert",
                                               "pop",    "remove", "reverse", "sort"};
  const auto known = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  if (!(object.is(Kind::kDict) && known(kDict)) && !(object.is(Kind::kList) && known(kList))) {
    return Value();
  }
  const std::string what = "access to attribute '" + std::string(name) + "' of '" +
                           object.type_name() + "' object is unsafe";
  return Value::function([what](const Args&) -> Value { throw TemplateError(what); });
}

Value list_method(const Value& object, std::string_view name) {
  if (name != "index" && name != "count") return Value();
  const bool count = name == "count";
  return Value::function([object, count](const Args& args) {
    if (args.positional.empty()) throw TemplateError("index and count need an argument");
    std::int64_t n = 0;
    for (std::size_t i = 0; i < object.as_list().size(); ++i) {
      if (!object.as_list()[i].equals(args.positional[0])) continue;
      if (!count) return Value::integer(static_cast<std::int64_t>(i));
      ++n;
    }
    if (!count) throw TemplateError(args.positional[0].repr() + " is not in list");
    return Value::integer(n);
  });
}

}  // namespace

std::string to_lower(std::string_view text) {
  return map_points(text, [](std::int32_t p) { return utf8proc_tolower(p); });
}
std::string to_upper(std::string_view text) {
  return map_points(text, [](std::int32_t p) { return utf8proc_toupper(p); });
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

std::vector<std::string> split(std::string_view text, const std::string* separator,
                               std::int64_t max) {
  std::vector<std::string> out;
  if (separator != nullptr) {
    std::size_t from = 0;
    for (std::size_t at = text.find(*separator); at != std::string_view::npos && max != 0;
         at = text.find(*separator, from), --max) {
      out.emplace_back(text.substr(from, at - from));
      from = at + separator->size();
    }
    out.emplace_back(text.substr(from));
    return out;
  }
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

std::string replace_all(std::string_view text, std::string_view from, std::string_view to,
                        std::int64_t max) {
  std::string out;
  if (from.empty()) {  // Python puts `to` around every code point
    for (const std::string& c : code_points(text)) {
      if (max != 0) out += to, --max;
      out += c;
    }
    if (max != 0) out += to;
    return out;
  }
  std::size_t at = 0;
  for (std::size_t hit = text.find(from); hit != std::string_view::npos && max != 0;
       hit = text.find(from, at), --max) {
    out += text.substr(at, hit - at);
    out += to;
    at = hit + from.size();
  }
  out += text.substr(at);
  return out;
}

Value bound_method(const Value& object, std::string_view name) {
  if (object.is(Kind::kString)) {
    const auto it = string_methods().find(name);
    if (it == string_methods().end()) return Value();
    const Method method = it->second;
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
