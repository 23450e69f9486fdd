#include "shared/text/jinja_builtins.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <map>

#include "shared/text/jinja_strings.h"

namespace holdfast::text::jinja {
namespace {

constexpr std::int64_t kRangeMax = 100'000;  // as Jinja2's sandbox

void require_defined(const Value& v) {
  if (v.is(Kind::kUndefined)) throw TemplateError("'" + v.undefined_name() + "' is undefined");
}

std::int64_t length_of(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return static_cast<std::int64_t>(code_points(v.as_string()).size());
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<std::int64_t>(v.as_list().size());
    case Kind::kDict:
      return static_cast<std::int64_t>(v.as_dict().size());
    default:
      throw TemplateError(std::string("object of type '") + v.type_name() + "' has no len()");
  }
}

std::string lower_of(const Value& v) {
  return to_lower(v.to_string());
}

/// Orders as Jinja's sort does: strings without case unless asked otherwise.
int sort_compare(const Value& a, const Value& b, bool case_sensitive) {
  if (!case_sensitive && a.is(Kind::kString) && b.is(Kind::kString)) {
    return Value::string(lower_of(a)).compare(Value::string(lower_of(b)));
  }
  return a.compare(b);
}

/// a.b.0 of a value, as the filters' `attribute` argument names it.
Value get_path(Value value, const Value& path) {
  if (path.is(Kind::kInt)) return get_item(value, path);
  const std::string text = path.to_string();
  std::size_t from = 0;
  while (from <= text.size()) {
    const std::size_t dot = std::min(text.find('.', from), text.size());
    const std::string part = text.substr(from, dot - from);
    const bool digits = !part.empty() && std::all_of(part.begin(), part.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
    value =
        get_item(value, digits ? Value::integer(std::atoll(part.c_str())) : Value::string(part));
    from = dot + 1;
  }
  return value;
}

bool flag(const Args& args, std::size_t i, std::string_view name, bool fallback) {
  const Value* v = args.get(i, name);
  return v != nullptr ? v->truthy() : fallback;
}

Args rest_of(const Args& args, std::size_t skip) {
  Args out;
  for (std::size_t i = skip; i < args.positional.size(); ++i) {
    out.positional.push_back(args.positional[i]);
  }
  out.named = args.named;
  return out;
}

// ---- filters

Value filter_tojson(const Value& v, const Args& args, Runtime&) {
  int indent = -1;
  if (const Value* i = args.get(0, "indent"); i != nullptr && i->is_number()) {
    indent = static_cast<int>(std::clamp<std::int64_t>(i->as_int(), 0, 16));
  }
  std::string item = ", ";
  std::string key = ": ";
  const Value* separators = args.named.find("separators");
  if (separators != nullptr && separators->is_sequence() && separators->as_list().size() == 2) {
    item = separators->as_list()[0].to_string();
    key = separators->as_list()[1].to_string();
  }
  const Value* sort = args.named.find("sort_keys");
  return Value::string(to_json(v, indent, sort != nullptr && sort->truthy(), item, key));
}

Value filter_default(const Value& v, const Args& args, Runtime&) {
  const bool use = v.is(Kind::kUndefined) || (flag(args, 1, "boolean", false) && !v.truthy());
  if (!use) return v;
  const Value* fallback = args.get(0, "default_value");
  return fallback != nullptr ? *fallback : Value::string("");
}

Value filter_items(const Value& v, const Args&, Runtime&) {
  if (v.is(Kind::kUndefined)) return Value::list({});
  if (!v.is(Kind::kDict)) throw TemplateError("Can only get item pairs from a mapping.");
  List out;
  for (const auto& [k, item] : v.as_dict().items())
    out.push_back(Value::tuple({Value::string(k), item}));
  return Value::list(std::move(out));
}

Value filter_dictsort(const Value& v, const Args& args, Runtime& runtime) {
  require_defined(v);
  if (!v.is(Kind::kDict)) throw TemplateError("dictsort needs a mapping");
  const bool case_sensitive = flag(args, 0, "case_sensitive", false);
  const Value* by = args.get(1, "by");
  const std::size_t key = by != nullptr && by->to_string() == "value" ? 1 : 0;
  const bool reverse = flag(args, 2, "reverse", false);
  List items = filter_items(v, args, runtime).as_list();
  std::stable_sort(items.begin(), items.end(), [&](const Value& a, const Value& b) {
    const int c = sort_compare(a.as_list()[key], b.as_list()[key], case_sensitive);
    return reverse ? c > 0 : c < 0;
  });
  return Value::list(std::move(items));
}

Value filter_sort(const Value& v, const Args& args, Runtime&) {
  List items = iterate(v);
  const bool reverse = flag(args, 0, "reverse", false);
  const bool case_sensitive = flag(args, 1, "case_sensitive", false);
  const Value* attribute = args.get(2, "attribute");
  std::stable_sort(items.begin(), items.end(), [&](const Value& a, const Value& b) {
    const int c =
        attribute != nullptr && !attribute->is(Kind::kNone)
            ? sort_compare(get_path(a, *attribute), get_path(b, *attribute), case_sensitive)
            : sort_compare(a, b, case_sensitive);
    return reverse ? c > 0 : c < 0;
  });
  return Value::list(std::move(items));
}

Value filter_join(const Value& v, const Args& args, Runtime& runtime) {
  const Value* separator = args.get(0, "d");
  const Value* attribute = args.get(1, "attribute");
  const std::string between = separator != nullptr ? separator->to_string() : "";
  std::string out;
  bool first = true;
  for (const Value& item : iterate(v)) {
    if (!first) out += between;
    first = false;
    out += (attribute != nullptr ? get_path(item, *attribute) : item).to_string();
    runtime.spend(1 + out.size() / 4096);
  }
  return Value::string(std::move(out));
}

Value filter_unique(const Value& v, const Args& args, Runtime& runtime) {
  const bool case_sensitive = flag(args, 0, "case_sensitive", false);
  List out;
  for (const Value& item : iterate(v)) {
    runtime.spend(1 + out.size());
    const bool seen = std::any_of(out.begin(), out.end(), [&](const Value& o) {
      if (!case_sensitive && o.is(Kind::kString) && item.is(Kind::kString)) {
        return lower_of(o) == lower_of(item);
      }
      return o.equals(item);
    });
    if (!seen) out.push_back(item);
  }
  return Value::list(std::move(out));
}

/// select, reject, selectattr, rejectattr: keep what passes a test (default: truth).
Value filter_select(std::string_view name, const Value& v, const Args& args, Runtime& runtime) {
  const bool by_attribute = name.ends_with("attr");
  const bool keep = name.starts_with("select");
  const std::size_t test_at = by_attribute ? 1 : 0;
  if (by_attribute && args.positional.empty()) throw TemplateError("missing attribute name");
  List out;
  for (const Value& item : iterate(v)) {
    runtime.spend(1);
    const Value subject = by_attribute ? get_path(item, args.positional[0]) : item;
    const bool passed =
        args.positional.size() > test_at
            ? apply_test(args.positional[test_at].to_string(), subject, rest_of(args, test_at + 1))
            : subject.truthy();
    if (passed == keep) out.push_back(item);
  }
  return Value::list(std::move(out));
}

Value filter_map(const Value& v, const Args& args, Runtime& runtime) {
  List out;
  const Value* attribute = args.named.find("attribute");
  const Value* fallback = args.named.find("default");
  for (const Value& item : iterate(v)) {
    runtime.spend(1);
    if (attribute != nullptr) {
      Value found = get_path(item, *attribute);
      if (found.is(Kind::kUndefined) && fallback != nullptr) found = *fallback;
      out.push_back(std::move(found));
    } else if (args.positional.empty()) {
      throw TemplateError("map requires a filter argument");
    } else {
      out.push_back(apply_filter(args.positional[0].to_string(), item, rest_of(args, 1), runtime));
    }
  }
  return Value::list(std::move(out));
}

Value filter_reverse(const Value& v, const Args&, Runtime&) {
  List items = iterate(v);
  std::reverse(items.begin(), items.end());
  if (!v.is(Kind::kString)) return Value::list(std::move(items));
  std::string out;
  for (const Value& c : items) out += c.as_string();
  return Value::string(std::move(out));
}

Value filter_extreme(const Value& v, const Args& args, bool largest) {
  const List items = iterate(v);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const Value* attribute = args.get(1, "attribute");
  const auto key = [&](const Value& item) {
    return attribute != nullptr ? get_path(item, *attribute) : item;
  };
  const Value* best = &items[0];
  for (const Value& item : items) {
    const int c = sort_compare(key(item), key(*best), flag(args, 0, "case_sensitive", false));
    if (largest ? c > 0 : c < 0) best = &item;
  }
  return *best;
}

Value filter_sum(const Value& v, const Args& args, Runtime&) {
  const Value* attribute = args.get(0, "attribute");
  double total = 0;
  std::int64_t whole = 0;
  bool integral = true;
  for (const Value& item : iterate(v)) {
    const Value x = attribute != nullptr ? get_path(item, *attribute) : item;
    if (!x.is_number()) throw TemplateError(std::string("cannot add '") + x.type_name() + "'");
    integral = integral && !x.is(Kind::kFloat);
    total += x.as_double();
    if (integral && __builtin_add_overflow(whole, x.as_int(), &whole)) integral = false;
  }
  return integral ? Value::integer(whole) : Value::number(total);
}

Value filter_int(const Value& v, const Args& args, Runtime&) {
  if (v.is(Kind::kFloat)) return Value::integer(static_cast<std::int64_t>(v.as_double()));
  if (v.is_number()) return Value::integer(v.as_int());
  const std::string text = strip(v.to_string(), "", true, true);
  double d = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), d);
  if (!text.empty() && r.ec == std::errc() && r.ptr == text.data() + text.size() &&
      std::fabs(d) < 9e18) {
    return Value::integer(static_cast<std::int64_t>(d));
  }
  const Value* fallback = args.get(0, "default");
  return fallback != nullptr ? *fallback : Value::integer(0);
}

Value filter_float(const Value& v, const Args& args, Runtime&) {
  if (v.is_number()) return Value::number(v.as_double());
  const std::string text = strip(v.to_string(), "", true, true);
  double d = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), d);
  if (!text.empty() && r.ec == std::errc() && r.ptr == text.data() + text.size())
    return Value::number(d);
  const Value* fallback = args.get(0, "default");
  return fallback != nullptr ? *fallback : Value::number(0);
}

Value filter_round(const Value& v, const Args& args, Runtime&) {
  require_defined(v);
  const Value* precision = args.get(0, "precision");
  const double scale =
      std::pow(10.0, precision != nullptr ? static_cast<double>(precision->as_int()) : 0);
  const Value* method = args.get(1, "method");
  const std::string how = method != nullptr ? method->to_string() : "common";
  const double x = v.as_double() * scale;
  const double r = how == "ceil"    ? std::ceil(x)
                   : how == "floor" ? std::floor(x)
                                    : std::nearbyint(x);
  return Value::number(r / scale);
}

Value filter_abs(const Value& v, const Args&, Runtime&) {
  if (!v.is_number())
    throw TemplateError(std::string("bad operand type for abs(): '") + v.type_name() + "'");
  return v.is(Kind::kFloat) ? Value::number(std::fabs(v.as_double()))
                            : Value::integer(v.as_int() < 0 ? -v.as_int() : v.as_int());
}

Value filter_indent(const Value& v, const Args& args, Runtime&) {
  const Value* width = args.get(0, "width");
  const std::string pad =
      width == nullptr ? std::string(4, ' ')
      : width->is(Kind::kString)
          ? width->as_string()
          : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(width->as_int(), 0, 256)),
                        ' ');
  const bool first = flag(args, 1, "first", false);
  const bool blank = flag(args, 2, "blank", false);
  const std::string text = v.to_string();
  std::string out = first ? pad : "";
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '\n' && i + 1 < text.size() && (blank || text[i + 1] != '\n')) out += pad;
  }
  return Value::string(std::move(out));
}

Value filter_batch(const Value& v, const Args& args, Runtime&) {
  const Value* size = args.get(0, "linecount");
  const std::int64_t n = size != nullptr && size->is_number() ? size->as_int() : 0;
  if (n <= 0) throw TemplateError("batch needs a positive size");
  List out;
  List row;
  for (const Value& item : iterate(v)) {
    row.push_back(item);
    if (static_cast<std::int64_t>(row.size()) == n)
      out.push_back(Value::list(std::exchange(row, {})));
  }
  if (!row.empty()) {
    const Value* fill = args.get(1, "fill_with");
    while (fill != nullptr &&
           static_cast<std::int64_t>(row.size()) < std::min<std::int64_t>(n, kRangeMax)) {
      row.push_back(*fill);
    }
    out.push_back(Value::list(std::move(row)));
  }
  return Value::list(std::move(out));
}

Value filter_groupby(const Value& v, const Args& args, Runtime& runtime) {
  const Value* attribute = args.get(0, "attribute");
  if (attribute == nullptr) throw TemplateError("groupby needs an attribute");
  Args sort_args;
  sort_args.named.set("attribute", *attribute);
  List out;
  for (const Value& item : filter_sort(v, sort_args, runtime).as_list()) {
    const Value key = get_path(item, *attribute);
    if (!out.empty() && out.back().as_list()[0].equals(key)) {
      List members = out.back().as_list()[1].as_list();
      members.push_back(item);
      out.back() = Value::tuple({key, Value::list(std::move(members))});
    } else {
      out.push_back(Value::tuple({key, Value::list({item})}));
    }
  }
  return Value::list(std::move(out));
}

Value filter_escape(const Value& v, const Args&, Runtime&) {
  std::string out;
  for (const char c : v.to_string()) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return Value::string(std::move(out));
}

Value filter_ends(const Value& v, bool first) {
  const List items = iterate(v);
  if (items.empty()) return Value::undefined("No first or last item, sequence was empty.");
  return first ? items.front() : items.back();
}

using Filter = Value (*)(const Value&, const Args&, Runtime&);

const std::map<std::string_view, Filter>& filters() {
  static const std::map<std::string_view, Filter> table = {
      {"tojson", filter_tojson},
      {"default", filter_default},
      {"d", filter_default},
      {"items", filter_items},
      {"dictsort", filter_dictsort},
      {"sort", filter_sort},
      {"join", filter_join},
      {"unique", filter_unique},
      {"map", filter_map},
      {"reverse", filter_reverse},
      {"sum", filter_sum},
      {"int", filter_int},
      {"float", filter_float},
      {"round", filter_round},
      {"abs", filter_abs},
      {"indent", filter_indent},
      {"batch", filter_batch},
      {"groupby", filter_groupby},
      {"escape", filter_escape},
      {"e", filter_escape},
      {"length",
       [](const Value& v, const Args&, Runtime&) { return Value::integer(length_of(v)); }},
      {"count", [](const Value& v, const Args&, Runtime&) { return Value::integer(length_of(v)); }},
      {"string",
       [](const Value& v, const Args&, Runtime&) { return Value::string(v.to_string()); }},
      {"list", [](const Value& v, const Args&, Runtime&) { return Value::list(iterate(v)); }},
      {"first", [](const Value& v, const Args&, Runtime&) { return filter_ends(v, true); }},
      {"last", [](const Value& v, const Args&, Runtime&) { return filter_ends(v, false); }},
      {"min", [](const Value& v, const Args& a, Runtime&) { return filter_extreme(v, a, false); }},
      {"max", [](const Value& v, const Args& a, Runtime&) { return filter_extreme(v, a, true); }},
      {"safe", [](const Value& v, const Args&, Runtime&) { return v; }},
      {"pprint", [](const Value& v, const Args&, Runtime&) { return Value::string(v.repr()); }},
      {"attr",
       [](const Value& v, const Args& a, Runtime&) {
         if (a.positional.empty()) throw TemplateError("attr needs a name");
         return get_item(v, a.positional[0]);
       }},
      {"wordcount",
       [](const Value& v, const Args&, Runtime&) {
         return Value::integer(static_cast<std::int64_t>(split(v.to_string(), nullptr, -1).size()));
       }},
  };
  return table;
}

// Filters that are the string's own methods.
constexpr std::string_view kStringFilters[] = {"upper", "lower", "title", "capitalize", "replace"};

}  // namespace

Value apply_filter(std::string_view name, const Value& value, const Args& args, Runtime& runtime) {
  if (value.is(Kind::kString)) runtime.spend(value.as_string().size() / 64);
  if (value.is_sequence()) runtime.spend(value.as_list().size());
  const auto it = filters().find(name);
  if (it != filters().end()) return it->second(value, args, runtime);
  if (name.starts_with("select") || name.starts_with("reject")) {
    if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr") {
      return filter_select(name, value, args, runtime);
    }
  }
  if (name == "trim")
    return bound_method(Value::string(value.to_string()), "strip").as_function()(args);
  for (const std::string_view method : kStringFilters) {
    if (name == method)
      return bound_method(Value::string(value.to_string()), name).as_function()(args);
  }
  throw TemplateError("No filter named '" + std::string(name) + "'.");
}

bool apply_test(std::string_view name, const Value& v, const Args& args) {
  const auto argument = [&]() -> const Value& {
    if (args.positional.empty()) {
      throw TemplateError("test '" + std::string(name) + "' needs an argument");
    }
    return args.positional[0];
  };
  if (name == "defined") return !v.is(Kind::kUndefined);
  if (name == "undefined") return v.is(Kind::kUndefined);
  if (name == "none") return v.is(Kind::kNone);
  if (name == "string") return v.is(Kind::kString);
  if (name == "number") return v.is_number();
  if (name == "integer") return v.is(Kind::kInt);
  if (name == "float") return v.is(Kind::kFloat);
  if (name == "boolean") return v.is(Kind::kBool);
  if (name == "true") return v.is(Kind::kBool) && v.as_bool();
  if (name == "false") return v.is(Kind::kBool) && !v.as_bool();
  if (name == "mapping") return v.is(Kind::kDict);
  if (name == "callable") return v.is(Kind::kFunction);
  if (name == "iterable" || name == "sequence") {
    return v.is(Kind::kString) || v.is_sequence() || v.is(Kind::kDict) || v.is(Kind::kUndefined);
  }
  if (name == "escaped") return false;
  if (name == "sameas") return v.kind() == argument().kind() && v.equals(argument());
  if (name == "eq" || name == "equalto" || name == "==") return v.equals(argument());
  if (name == "ne" || name == "!=") return !v.equals(argument());
  if (name == "in") {
    if (argument().is(Kind::kString))
      return argument().as_string().find(v.to_string()) != std::string::npos;
    const List items = iterate(argument());
    return std::any_of(items.begin(), items.end(), [&](const Value& x) { return x.equals(v); });
  }
  if (name == "lower") return v.to_string() == lower_of(v);
  if (name == "upper") return v.to_string() == to_upper(v.to_string());
  require_defined(v);
  if (name == "lt" || name == "lessthan" || name == "<") return v.compare(argument()) < 0;
  if (name == "le" || name == "<=") return v.compare(argument()) <= 0;
  if (name == "gt" || name == "greaterthan" || name == ">") return v.compare(argument()) > 0;
  if (name == "ge" || name == ">=") return v.compare(argument()) >= 0;
  if (name == "odd" || name == "even" || name == "divisibleby") {
    const std::int64_t divisor = name == "divisibleby" ? argument().as_int() : 2;
    if (!v.is_number() || divisor == 0)
      throw TemplateError("test '" + std::string(name) + "' needs integers");
    const bool divides = v.as_int() % divisor == 0;
    return name == "odd" ? !divides : divides;
  }
  throw TemplateError("No test named '" + std::string(name) + "'.");
}

Value get_item(const Value& object, const Value& key) {
  if (object.is(Kind::kDict) || object.is(Kind::kNamespace)) {
    const Value* v = key.is(Kind::kString) ? object.as_dict().find(key.as_string()) : nullptr;
    return v != nullptr ? *v : Value();
  }
  if (!key.is(Kind::kInt)) return Value();
  if (object.is_sequence()) {
    const auto n = static_cast<std::int64_t>(object.as_list().size());
    const std::int64_t i = key.as_int() < 0 ? key.as_int() + n : key.as_int();
    return i >= 0 && i < n ? object.as_list()[static_cast<std::size_t>(i)] : Value();
  }
  if (object.is(Kind::kString)) {
    std::vector<std::string> points = code_points(object.as_string());
    const auto n = static_cast<std::int64_t>(points.size());
    const std::int64_t i = key.as_int() < 0 ? key.as_int() + n : key.as_int();
    return i >= 0 && i < n ? Value::string(std::move(points[static_cast<std::size_t>(i)]))
                           : Value();
  }
  return Value();
}

// ---- globals

namespace {

Value make_range(const Args& args) {
  std::int64_t bounds[3] = {0, 0, 1};
  const std::size_t n = args.positional.size();
  if (n < 1 || n > 3) throw TemplateError("range takes one to three arguments");
  for (std::size_t i = 0; i < n; ++i) {
    if (!args.positional[i].is_number()) throw TemplateError("range needs integers");
    bounds[n == 1 ? 1 : i] = args.positional[i].as_int();
  }
  if (bounds[2] == 0) throw TemplateError("range() arg 3 must not be zero");
  List out;
  for (std::int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
    if (static_cast<std::int64_t>(out.size()) >= kRangeMax) {
      throw TemplateError("Range too big. The sandbox blocks ranges larger than 100000.");
    }
    out.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, bounds[2], &i)) break;
  }
  return Value::list(std::move(out));
}

Value make_strftime(const Args& args, const std::string& date) {
  if (args.positional.empty()) throw TemplateError("strftime_now needs a format");
  std::tm t{};
  if (std::sscanf(date.c_str(), "%d-%d-%d", &t.tm_year, &t.tm_mon, &t.tm_mday) != 3) {
    throw TemplateError("the date is not YYYY-MM-DD");
  }
  t.tm_year -= 1900;
  t.tm_mon -= 1;
  t.tm_hour = 12;  // noon: the same day in whatever zone
  timegm(&t);      // fills in the day of the week and of the year
  std::string buffer(512, '\0');
  const std::string format =
      args.positional[0].to_string() + " ";  // so that empty is not a failure
  const std::size_t n = std::strftime(buffer.data(), buffer.size(), format.c_str(), &t);
  if (n == 0) throw TemplateError("strftime_now: the result is too long");
  return Value::string(buffer.substr(0, n - 1));
}

Dict named_or_first(const Args& args) {
  Dict items;
  if (!args.positional.empty() && args.positional[0].is(Kind::kDict))
    items = args.positional[0].as_dict();
  for (const auto& [k, v] : args.named.items()) items.set(k, v);
  return items;
}

}  // namespace

Value global_function(std::string_view name, const std::string& date) {
  if (name == "range") return Value::function(make_range);
  if (name == "dict") {
    return Value::function([](const Args& args) { return Value::dict(named_or_first(args)); });
  }
  if (name == "namespace") {
    return Value::function(
        [](const Args& args) { return Value::name_space(named_or_first(args)); });
  }
  if (name == "raise_exception") {
    return Value::function([](const Args& args) -> Value {
      throw TemplateError(args.positional.empty() ? "the template refused the messages"
                                                  : args.positional[0].to_string());
    });
  }
  if (name == "strftime_now") {
    return Value::function([date](const Args& args) { return make_strftime(args, date); });
  }
  return Value();
}

}  // namespace holdfast::text::jinja
