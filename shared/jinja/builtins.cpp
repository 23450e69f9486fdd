#include "shared/jinja/builtins.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "shared/jinja/format.h"
#include "shared/jinja/numbers.h"
#include "shared/jinja/strings.h"

namespace holdfast::text::jinja {
namespace {

constexpr std::int64_t kIndentMax = 256;

std::int64_t length_of(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return point_count(v.as_string());
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

/// Returns the key by which Jinja's filters order and compare: strings without case by default.
Value folded(const Value& key, bool case_sensitive) {
  return !case_sensitive && key.is(Kind::kString) ? Value::string(lower_of(key)) : key;
}

int compare_counted(const Value& a, const Value& b, Runtime& runtime) {
  runtime.spend(std::min(a.weight(), b.weight()));
  return a.compare(b);
}

/// Returns a.b.0 of a value, the path of the filters' `attribute` argument.
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

/// Implements Transformers' tojson(ensure_ascii=False, indent=None, separators=None,
/// sort_keys=False).
Value filter_tojson(const Value& v, const Args& args, Runtime& runtime) {
  runtime.spend(v.weight());
  JsonForm form;
  form.ensure_ascii = flag(args, 0, "ensure_ascii", false);
  form.sort_keys = flag(args, 3, "sort_keys", false);
  if (const Value* indent = args.get(1, "indent"); indent != nullptr && !indent->is(Kind::kNone)) {
    form.multi_line = true;
    form.indent = indent->is(Kind::kString)
                      ? indent->as_string()
                      : pad("", std::min(whole_arg(args, 1, "indent", 0), kIndentMax), 0, " ");
    form.item_separator = ",";
  }
  const Value* separators = args.get(2, "separators");
  if (separators != nullptr && !separators->is(Kind::kNone)) {
    if (!separators->is_sequence() || separators->as_list().size() != 2) {
      throw TemplateError("tojson: separators must be two strings");
    }
    form.item_separator = separators->as_list()[0].to_string();
    form.key_separator = separators->as_list()[1].to_string();
  }
  return Value::string(to_json(v, form));
}

Value filter_default(const Value& v, const Args& args, Runtime&) {
  const bool use = v.is(Kind::kUndefined) || (flag(args, 1, "boolean", false) && !v.truthy());
  if (!use) return v;
  const Value* fallback = args.get(0, "default_value");
  return fallback != nullptr ? *fallback : Value::string("");
}

Value filter_items(const Value& v, const Args&, Runtime&) {
  if (v.is(Kind::kUndefined)) return Value::generated({});
  if (!v.is(Kind::kDict)) throw TemplateError("Can only get item pairs from a mapping.");
  List out;
  for (const auto& [k, item] : v.as_dict().items()) out.push_back(Value::tuple({k, item}));
  return Value::generated(std::move(out));
}

Value filter_dictsort(const Value& v, const Args& args, Runtime& runtime) {
  require_defined(v);
  if (!v.is(Kind::kDict)) throw TemplateError("dictsort needs a mapping");
  const bool case_sensitive = flag(args, 0, "case_sensitive", false);
  const Value* by = args.get(1, "by");
  const bool by_value = by != nullptr && by->to_string() == "value";
  const bool reverse = flag(args, 2, "reverse", false);
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [k, item] : v.as_dict().items()) {
    keyed.emplace_back(folded(by_value ? item : k, case_sensitive), Value::tuple({k, item}));
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    const int c = compare_counted(a.first, b.first, runtime);
    return reverse ? c > 0 : c < 0;
  });
  List out;
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  return Value::list(std::move(out));
}

/// Returns the values that an `attribute` argument names: several with commas between.
List get_paths(const Value& item, const Value* attribute) {
  if (attribute == nullptr || attribute->is(Kind::kNone)) return {item};
  if (!attribute->is(Kind::kString)) return {get_path(item, *attribute)};
  List out;
  const std::string comma = ",";
  for (std::string& path : split(attribute->as_string(), &comma, -1)) {
    out.push_back(get_path(item, Value::string(std::move(path))));
  }
  return out;
}

/// Orders two lists of sort keys by the first unequal ones, as Python does; <0, 0, >0.
int compare_keys(const List& a, const List& b, Runtime& runtime) {
  runtime.spend(1);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].equals(b[i])) continue;
    if (const int order = compare_counted(a[i], b[i], runtime); order != 0) return order;
  }
  return 0;
}

/// Sorts stably by the attributes; `fallback` (may be null) replaces a missing one.
List sorted(List items, const Value* attribute, const Value* fallback, bool reverse,
            bool case_sensitive, Runtime& runtime) {
  std::vector<std::pair<List, Value>> keyed;
  for (Value& item : items) {
    List key = get_paths(item, attribute);
    for (Value& k : key) {
      if (k.is(Kind::kUndefined) && fallback != nullptr) k = *fallback;
      k = folded(k, case_sensitive);
    }
    keyed.emplace_back(std::move(key), std::move(item));
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    const int order = compare_keys(a.first, b.first, runtime);
    return reverse ? order > 0 : order < 0;
  });
  List out;
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  return out;
}

Value filter_sort(const Value& v, const Args& args, Runtime& runtime) {
  return Value::list(sorted(iterate(v), args.get(2, "attribute"), nullptr,
                            flag(args, 0, "reverse", false), flag(args, 1, "case_sensitive", false),
                            runtime));
}

Value filter_join(const Value& v, const Args& args, Runtime& runtime) {
  const Value* separator = args.get(0, "d");
  const Value* attribute = args.get(1, "attribute");
  const std::string between = separator != nullptr ? separator->to_string() : "";
  std::string out;
  bool first = true;
  const List items = iterate(v);
  for (const Value& item : items) {
    if (!first) append_bounded(out, between);
    first = false;
    const Value part = attribute != nullptr ? get_path(item, *attribute) : item;
    runtime.spend(part.weight());
    append_bounded(out, part.to_string());
  }
  return Value::string(std::move(out));
}

Value filter_unique(const Value& v, const Args& args, Runtime& runtime) {
  const bool case_sensitive = flag(args, 0, "case_sensitive", false);
  const Value* attribute = args.get(1, "attribute");
  List keys;
  List out;
  const List items = iterate(v);
  for (const Value& item : items) {
    const Value key =
        folded(attribute != nullptr ? get_path(item, *attribute) : item, case_sensitive);
    const bool duplicate = std::any_of(keys.begin(), keys.end(), [&](const Value& k) {
      runtime.spend(std::min(k.weight(), key.weight()));
      return k.equals(key);
    });
    if (duplicate) continue;
    keys.push_back(key);
    out.push_back(item);
  }
  return Value::generated(std::move(out));
}

/// Returns the items as Jinja2's select and map do: a false value (none too) has no items.
List items_if_any(const Value& v) {
  return v.truthy() ? iterate(v) : List();
}

/// Implements select, reject, selectattr, rejectattr: items that pass a test (default: truth).
Value filter_select(std::string_view name, const Value& v, const Args& args, Runtime& runtime) {
  const bool by_attribute = name.ends_with("attr");
  const bool selects = name.starts_with("select");
  const std::size_t test_at = by_attribute ? 1 : 0;
  if (by_attribute && args.positional.empty()) throw TemplateError("missing attribute name");
  List out;
  for (const List items = items_if_any(v); const Value& item : items) {
    runtime.spend(1);
    const Value subject = by_attribute ? get_path(item, args.positional[0]) : item;
    const bool passed =
        args.positional.size() > test_at
            ? apply_test(args.positional[test_at].to_string(), subject, rest_of(args, test_at + 1))
            : subject.truthy();
    if (passed == selects) out.push_back(item);
  }
  return Value::generated(std::move(out));
}

Value filter_map(const Value& v, const Args& args, Runtime& runtime) {
  List out;
  const Value* attribute = args.named.find("attribute");
  const Value* fallback = args.named.find("default");
  for (const List items = items_if_any(v); const Value& item : items) {
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
  return Value::generated(std::move(out));
}

Value filter_reverse(const Value& v, const Args&, Runtime&) {
  List items = iterate(v);
  std::reverse(items.begin(), items.end());
  if (!v.is(Kind::kString)) return Value::generated(std::move(items));
  std::string out;
  for (const Value& c : items) out += c.as_string();
  return Value::string(std::move(out));
}

Value filter_extreme(const Value& v, const Args& args, bool largest, Runtime& runtime) {
  const List items = iterate(v);
  if (items.empty()) return Value::undefined_because("No aggregated item, sequence was empty.");
  const Value* attribute = args.get(1, "attribute");
  const bool case_sensitive = flag(args, 0, "case_sensitive", false);
  const Value* best = nullptr;
  Value best_key;
  for (const Value& item : items) {
    Value key = folded(attribute != nullptr ? get_path(item, *attribute) : item, case_sensitive);
    const int c = best != nullptr ? compare_counted(key, best_key, runtime) : 0;
    if (best != nullptr && (largest ? c <= 0 : c >= 0)) continue;
    best = &item;
    best_key = std::move(key);
  }
  return *best;
}

/// Returns the concatenation of lists, their sum.
Value sum_of_lists(const List& items, const Value& start, Runtime& runtime) {
  List out = start.as_list();
  for (const Value& item : items) {
    if (item.kind() != start.kind()) {
      throw TemplateError(std::string("unsupported operand type(s) for +: '") + start.type_name() +
                          "' and '" + item.type_name() + "'");
    }
    runtime.spend(item.as_list().size());
    if (out.size() > kWeightMax) throw TemplateError("a value grows too large");
    out.insert(out.end(), item.as_list().begin(), item.as_list().end());
  }
  return start.is(Kind::kList) ? Value::list(std::move(out)) : Value::tuple(std::move(out));
}

/// Adds numbers as Python does: integers until the first float, floats from there on.
Value sum_of_numbers(const List& items) {
  double total = 0;
  std::int64_t whole = 0;
  bool integral = true;
  for (const Value& x : items) {
    require_defined(x);
    if (!x.is_number()) {
      throw TemplateError(std::string("unsupported operand type(s) for +: 'int' and '") +
                          x.type_name() + "'");
    }
    if (integral && x.is(Kind::kFloat)) {
      integral = false;
      total = static_cast<double>(whole);
    }
    if (!integral) {
      total += x.as_double();
    } else if (__builtin_add_overflow(whole, x.as_int(), &whole)) {
      throw TemplateError("integer overflow in 'sum'");
    }
  }
  return integral ? Value::integer(whole) : Value::number(total);
}

Value filter_sum(const Value& v, const Args& args, Runtime& runtime) {
  const Value* attribute = args.get(0, "attribute");
  const Value* given = args.get(1, "start");
  const Value start = given != nullptr ? *given : Value::integer(0);
  List items = iterate(v);
  if (attribute != nullptr && !attribute->is(Kind::kNone)) {
    for (Value& item : items) item = get_path(item, *attribute);
  }
  if (start.is_sequence()) return sum_of_lists(items, start, runtime);
  items.insert(items.begin(), start);
  return sum_of_numbers(items);
}

Value filter_indent(const Value& v, const Args& args, Runtime&) {
  const Value* width = args.get(0, "width");
  const std::string indent =
      width != nullptr && width->is(Kind::kString)
          ? width->as_string()
          : pad("", std::min(whole_arg(args, 0, "width", 4), kIndentMax), 0, " ");
  const bool first = flag(args, 1, "first", false);
  const bool blank = flag(args, 2, "blank", false);
  std::string out = first ? indent : "";
  bool begun = false;
  for (const std::string& line : split_lines(v.to_string() + "\n", false)) {
    if (begun) append_bounded(out, "\n");
    if (begun && (blank || !line.empty())) append_bounded(out, indent);
    append_bounded(out, line);
    begun = true;
  }
  return Value::string(std::move(out));
}

Value filter_batch(const Value& v, const Args& args, Runtime&) {
  const std::int64_t n = whole_arg(args, 0, "linecount", 0);
  if (n <= 0) throw TemplateError("batch needs a positive size");
  List out;
  List row;
  for (const List items = iterate(v); const Value& item : items) {
    row.push_back(item);
    if (static_cast<std::int64_t>(row.size()) == n)
      out.push_back(Value::list(std::exchange(row, {})));
  }
  if (!row.empty()) {
    const Value* fill = args.get(1, "fill_with");
    while (fill != nullptr && !fill->is(Kind::kNone) &&
           static_cast<std::int64_t>(row.size()) < std::min<std::int64_t>(n, kRangeMax)) {
      row.push_back(*fill);
    }
    out.push_back(Value::list(std::move(row)));
  }
  return Value::generated(std::move(out));
}

/// Makes columns: the first ones get the remaining items, `fill_with` (if given) fills up the
/// others.
Value filter_slice(const Value& v, const Args& args, Runtime&) {
  const std::int64_t n = whole_arg(args, 0, "slices", 0);
  if (n <= 0 || n > kRangeMax) throw TemplateError("slice needs a positive number");
  const List items = iterate(v);
  const auto columns = static_cast<std::size_t>(n);
  const std::size_t each = items.size() / columns;
  const std::size_t rest = items.size() % columns;
  const Value* fill = args.get(1, "fill_with");
  List out;
  auto at = items.begin();
  for (std::size_t i = 0; i < columns; ++i) {
    const auto end = at + static_cast<std::ptrdiff_t>(each + (i < rest ? 1 : 0));
    List column(at, end);
    if (fill != nullptr && !fill->is(Kind::kNone) && i >= rest) column.push_back(*fill);
    out.push_back(Value::list(std::move(column)));
    at = end;
  }
  return Value::generated(std::move(out));
}

std::string title_word(const std::string& word) {
  const std::size_t first = word.empty() ? 0 : code_points(word)[0].size();
  return to_upper(word.substr(0, first)) + to_lower(word.substr(first));
}

/// Implements Jinja's title: a word begins after white space, a hyphen or an opening bracket.
Value filter_title(const Value& v, const Args&, Runtime&) {
  std::string out;
  std::string word;
  for (const std::string& c : code_points(v.to_string())) {
    if (c != "-" && c != "(" && c != "{" && c != "[" && c != "<" &&
        !strip(c, "", true, true).empty()) {
      word += c;
      continue;
    }
    append_bounded(out, title_word(std::exchange(word, {})));
    append_bounded(out, c);
  }
  append_bounded(out, title_word(word));
  return Value::string(std::move(out));
}

/// Counts runs of letters, numbers and underscores.
Value filter_wordcount(const Value& v, const Args&, Runtime&) {
  std::int64_t words = 0;
  bool in_word = false;
  for (const std::string& c : code_points(v.to_string())) {
    const std::int32_t p = point_of(c);
    const bool part = p == '_' || is_letter(p) || is_numeric(p);
    if (part && !in_word) ++words;
    in_word = part;
  }
  return Value::integer(words);
}

/// Returns the most characters by which truncate lets a text be too long.
std::int64_t truncate_leeway(const Args& args) {
  const Value* given = args.get(3, "leeway");
  const bool none = given == nullptr || given->is(Kind::kNone);
  return none ? 5 : whole_arg(args, 3, "leeway", 5);
}

/// Cuts a text that is more than `leeway` too long at a word's end (or anywhere: killwords).
Value filter_truncate(const Value& v, const Args& args, Runtime&) {
  const std::int64_t length = whole_arg(args, 0, "length", 255);
  const bool kill_words = flag(args, 1, "killwords", false);
  const Value* given = args.get(2, "end");
  const std::string end = given != nullptr ? given->to_string() : "...";
  const std::int64_t leeway = truncate_leeway(args);
  const std::int64_t prefix_length = length - point_count(end);
  if (prefix_length < 0 || leeway < 0) throw TemplateError("truncate: the length is too small");
  const std::string text = v.to_string();
  const std::vector<std::string> points = code_points(text);
  if (static_cast<std::int64_t>(points.size()) <= length + leeway) return Value::string(text);
  std::string out;
  for (std::int64_t i = 0; i < prefix_length; ++i) out += points[static_cast<std::size_t>(i)];
  if (!kill_words) out = out.substr(0, out.rfind(' '));
  return Value::string(out + end);
}

Value filter_format(const Value& v, const Args& args, Runtime&) {
  if (!args.positional.empty() && args.named.size() != 0) {
    throw TemplateError("can't handle positional and keyword arguments at the same time");
  }
  return Value::string(percent_format(v.to_string(), args.named.size() != 0
                                                         ? Value::dict(args.named)
                                                         : Value::tuple(args.positional)));
}

Value filter_groupby(const Value& v, const Args& args, Runtime& runtime) {
  const Value* attribute = args.get(0, "attribute");
  if (attribute == nullptr) throw TemplateError("groupby needs an attribute");
  const Value* fallback = args.get(1, "default");
  const bool case_sensitive = flag(args, 2, "case_sensitive", false);
  const List items = sorted(iterate(v), attribute, fallback, false, case_sensitive, runtime);
  const auto key_of = [&](const Value& item) {
    Value key = get_path(item, *attribute);
    return key.is(Kind::kUndefined) && fallback != nullptr ? *fallback : key;
  };
  std::vector<std::pair<Value, List>> groups;
  for (const Value& item : items) {
    Value key = key_of(item);
    const Value* last = groups.empty() ? nullptr : &groups.back().first;
    const bool same =
        last != nullptr && folded(*last, case_sensitive).equals(folded(key, case_sensitive));
    if (!same) groups.emplace_back(std::move(key), List());
    groups.back().second.push_back(item);
  }
  List out;
  for (auto& [key, members] : groups) {
    out.push_back(Value::named_tuple({"grouper", "list"}, {key, Value::list(std::move(members))}));
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
  if (items.empty()) {
    return Value::undefined_because(first ? "No first item, sequence was empty."
                                          : "No last item, sequence was empty.");
  }
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
      {"forceescape", filter_escape},
      {"slice", filter_slice},
      {"title", filter_title},
      {"wordcount", filter_wordcount},
      {"format", filter_format},
      {"truncate", filter_truncate},
      {"capitalize", [](const Value& v, const Args&,
                        Runtime&) { return Value::string(capitalize(v.to_string())); }},
      {"length",
       [](const Value& v, const Args&, Runtime&) { return Value::integer(length_of(v)); }},
      {"count", [](const Value& v, const Args&, Runtime&) { return Value::integer(length_of(v)); }},
      {"string",
       [](const Value& v, const Args&, Runtime&) { return Value::string(v.to_string()); }},
      {"list", [](const Value& v, const Args&, Runtime&) { return Value::list(iterate(v)); }},
      {"first", [](const Value& v, const Args&, Runtime&) { return filter_ends(v, true); }},
      {"last", [](const Value& v, const Args&, Runtime&) { return filter_ends(v, false); }},
      {"min",
       [](const Value& v, const Args& a, Runtime& r) { return filter_extreme(v, a, false, r); }},
      {"max",
       [](const Value& v, const Args& a, Runtime& r) { return filter_extreme(v, a, true, r); }},
      {"safe", [](const Value& v, const Args&, Runtime&) { return Value::string(v.to_string()); }},
      {"pprint", [](const Value& v, const Args&, Runtime&) { return Value::string(v.repr()); }},
      {"attr",
       [](const Value& v, const Args& a, Runtime&) {
         if (a.positional.empty()) throw TemplateError("attr needs a name");
         const Value& name = a.positional[0];
         if (v.is(Kind::kNamespace) || v.fields() != nullptr) return get_item(v, name);
         return bound_method(v, name.to_string());
       }},
      {"center",
       [](const Value& v, const Args& a, Runtime&) {
         Args width;
         width.positional = {Value::integer(whole_arg(a, 0, "width", 80))};
         return bound_method(Value::string(v.to_string()), "center").as_function()(width);
       }},
  };
  return table;
}

Value filter_replace(const Value& v, const Args& args) {
  const Value* from = args.get(0, "old");
  const Value* to = args.get(1, "new");
  if (from == nullptr || to == nullptr) throw TemplateError("replace needs two texts");
  const Value* count = args.get(2, "count");
  const bool all = count == nullptr || count->is(Kind::kNone);
  return Value::string(replace_all(v.to_string(), from->to_string(), to->to_string(),
                                   all ? -1 : whole_arg(args, 2, "count", -1)));
}

/// Calls the string's method `method`, which does what the filter does.
Value filter_by_method(std::string_view method, const Value& v, const Args& args) {
  return bound_method(Value::string(v.to_string()), method).as_function()(args);
}

/// Filters whose names the function needs, or that are strings' methods.
using NamedFilter = Value (*)(std::string_view name, const Value&, const Args&, Runtime&);

const std::map<std::string_view, NamedFilter>& named_filters() {
  static const std::map<std::string_view, NamedFilter> table = {
      {"select", filter_select},
      {"reject", filter_select},
      {"selectattr", filter_select},
      {"rejectattr", filter_select},
      {"replace", [](std::string_view, const Value& v, const Args& a,
                     Runtime&) { return filter_replace(v, a); }},
      {"trim", [](std::string_view, const Value& v, const Args& a,
                  Runtime&) { return filter_by_method("strip", v, a); }},
      {"upper", [](std::string_view name, const Value& v, const Args& a,
                   Runtime&) { return filter_by_method(name, v, a); }},
      {"lower", [](std::string_view name, const Value& v, const Args& a,
                   Runtime&) { return filter_by_method(name, v, a); }},
  };
  return table;
}

bool is_filter(std::string_view name) {
  return filters().contains(name) || named_filters().contains(name);
}

/// One use of a test: `value is name` or `value is name(args)`.
struct TestCall {
  std::string_view name;
  const Value& value;
  const Args& args;

  const Value& argument() const {
    if (args.positional.empty()) {
      throw TemplateError("test '" + std::string(name) + "' needs an argument");
    }
    return args.positional[0];
  }
};

using Test = bool (*)(const TestCall&);

bool is_test(std::string_view name);

template <Kind kind>
bool test_kind(const TestCall& t) {
  return t.value.is(kind);
}

bool test_iterable(const TestCall& t) {
  const Value& v = t.value;
  return v.is(Kind::kString) || v.is_sequence() || v.is(Kind::kDict) || v.is(Kind::kUndefined);
}

bool test_equal(const TestCall& t) {
  return t.value.equals(t.argument());
}

bool test_unequal(const TestCall& t) {
  return !t.value.equals(t.argument());
}

bool test_in(const TestCall& t) {
  const Value& container = t.argument();
  if (container.is(Kind::kString)) {
    return container.as_string().find(t.value.to_string()) != std::string::npos;
  }
  const List items = iterate(container);
  return std::any_of(items.begin(), items.end(), [&](const Value& x) { return x.equals(t.value); });
}

/// Compares a defined value with the argument; <0, 0, >0.
int compare_to_argument(const TestCall& t) {
  require_defined(t.value);
  return t.value.compare(t.argument());
}

bool test_less(const TestCall& t) {
  return compare_to_argument(t) < 0;
}

bool test_at_most(const TestCall& t) {
  return compare_to_argument(t) <= 0;
}

bool test_greater(const TestCall& t) {
  return compare_to_argument(t) > 0;
}

bool test_at_least(const TestCall& t) {
  return compare_to_argument(t) >= 0;
}

/// Throws unless the test's value can be divided by `divisor`.
void require_divisible(const TestCall& t, const Value& divisor) {
  if (!t.value.is_number() || !divisor.is_number()) {
    throw TemplateError("test '" + std::string(t.name) + "' needs numbers");
  }
  if (divisor.as_double() == 0) throw TemplateError("division by zero");
}

/// Implements odd, even and divisibleby.
bool test_division(const TestCall& t) {
  const Value& v = t.value;
  require_defined(v);
  const Value divisor = t.name == "divisibleby" ? t.argument() : Value::integer(2);
  require_divisible(t, divisor);
  if (v.is(Kind::kFloat) || divisor.is(Kind::kFloat)) {
    const double rest = std::fmod(v.as_double(), divisor.as_double());
    return t.name == "odd" ? std::fabs(rest) == 1 : rest == 0;
  }
  const bool divides = divisor.as_int() == -1 || v.as_int() % divisor.as_int() == 0;
  return t.name == "odd" ? !divides : divides;
}

const std::map<std::string_view, Test>& tests() {
  static const std::map<std::string_view, Test> table = {
      {"defined", [](const TestCall& t) { return !t.value.is(Kind::kUndefined); }},
      {"undefined", test_kind<Kind::kUndefined>},
      {"none", test_kind<Kind::kNone>},
      {"string", test_kind<Kind::kString>},
      {"number", [](const TestCall& t) { return t.value.is_number(); }},
      {"integer", test_kind<Kind::kInt>},
      {"float", test_kind<Kind::kFloat>},
      {"boolean", test_kind<Kind::kBool>},
      {"true", [](const TestCall& t) { return t.value.is(Kind::kBool) && t.value.as_bool(); }},
      {"false", [](const TestCall& t) { return t.value.is(Kind::kBool) && !t.value.as_bool(); }},
      {"mapping", test_kind<Kind::kDict>},
      {"callable", test_kind<Kind::kFunction>},
      {"iterable", test_iterable},
      {"sequence", test_iterable},
      {"escaped", [](const TestCall&) { return false; }},
      {"sameas", [](const TestCall& t) { return t.value.same_as(t.argument()); }},
      {"filter", [](const TestCall& t) { return is_filter(t.value.to_string()); }},
      {"test", [](const TestCall& t) { return is_test(t.value.to_string()); }},
      {"eq", test_equal},
      {"equalto", test_equal},
      {"==", test_equal},
      {"ne", test_unequal},
      {"!=", test_unequal},
      {"in", test_in},
      {"lower",
       [](const TestCall& t) {
         const std::string text = t.value.to_string();
         return lower_of(t.value) == text && to_upper(text) != text;
       }},
      {"upper",
       [](const TestCall& t) {
         const std::string text = t.value.to_string();
         return to_upper(text) == text && lower_of(t.value) != text;
       }},
      {"lt", test_less},
      {"lessthan", test_less},
      {"<", test_less},
      {"le", test_at_most},
      {"<=", test_at_most},
      {"gt", test_greater},
      {"greaterthan", test_greater},
      {">", test_greater},
      {"ge", test_at_least},
      {">=", test_at_least},
      {"odd", test_division},
      {"even", test_division},
      {"divisibleby", test_division},
  };
  return table;
}

/// Returns true if the test `is name` exists.
bool is_test(std::string_view name) {
  return tests().contains(name);
}

/// Returns list[index], counted from the end if it is negative; null outside the list.
template <typename Items>
auto* item_at(Items& list, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(list.size());
  if (index < 0) index += size;
  return index >= 0 && index < size ? &list[static_cast<std::size_t>(index)] : nullptr;
}

/// Returns the dict in which an object's `key` is looked up; null if its items have places instead.
const Dict* dict_with_key(const Value& object, const Value& key) {
  if (object.is(Kind::kDict) || object.is(Kind::kNamespace)) return &object.as_dict();
  return key.is(Kind::kString) ? object.fields() : nullptr;
}

/// Returns the field's value; undefined if there is none.
Value field_of(const Dict& fields, const Value& key) {
  const Value* v = fields.find(key);
  return v != nullptr ? *v : Value();
}

}  // namespace

Value apply_filter(std::string_view name, const Value& value, const Args& args, Runtime& runtime) {
  if (value.is(Kind::kString)) runtime.spend(value.weight());
  if (value.is_sequence()) runtime.spend(value.as_list().size());
  const auto it = filters().find(name);
  if (it != filters().end()) return it->second(value, args, runtime);
  const auto named = named_filters().find(name);
  if (named != named_filters().end()) return named->second(name, value, args, runtime);
  throw TemplateError("No filter named '" + std::string(name) + "'.");
}

bool apply_test(std::string_view name, const Value& v, const Args& args) {
  const auto it = tests().find(name);
  if (it == tests().end()) throw TemplateError("No test named '" + std::string(name) + "'.");
  return it->second({name, v, args});
}

Value get_item(const Value& object, const Value& key) {
  if (const Dict* const dict = dict_with_key(object, key)) return field_of(*dict, key);
  if (!key.is(Kind::kInt) && !key.is(Kind::kBool)) return Value();
  if (object.is_sequence()) {
    const Value* item = item_at(object.as_list(), key.as_int());
    return item != nullptr ? *item : Value();
  }
  if (object.is(Kind::kString)) {
    std::vector<std::string> points = code_points(object.as_string());
    std::string* const point = item_at(points, key.as_int());
    return point != nullptr ? Value::string(std::move(*point)) : Value();
  }
  return Value();
}

}  // namespace holdfast::text::jinja
