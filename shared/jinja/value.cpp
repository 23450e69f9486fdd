#include "shared/jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include <utf8proc.h>

#include "shared/base/json_text.h"
#include "shared/jinja/strings.h"

namespace holdfast::text::jinja {

std::size_t Dict::size() const {
  return items_.size();
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [k, v] : items_) {
    if (k.is(Kind::kString) && k.as_string() == key) return &v;
  }
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  for (const auto& [k, v] : items_) {
    if (k.equals(key)) return &v;
  }
  return nullptr;
}

void Dict::set(std::string_view key, Value value) {
  for (auto& [k, v] : items_) {
    if (k.is(Kind::kString) && k.as_string() == key) {
      v = std::move(value);
      return;
    }
  }
  items_.push_back({Value::string(std::string(key)), std::move(value)});
}

void Dict::set(const Value& key, Value value) {
  if (!key.is(Kind::kString) && !key.is_number() && !key.is(Kind::kNone) && !key.is(Kind::kTuple)) {
    throw TemplateError(std::string("unhashable type: '") + key.type_name() + "'");
  }
  for (auto& [k, v] : items_) {
    if (k.equals(key)) {
      v = std::move(value);
      return;
    }
  }
  items_.push_back({key, std::move(value)});
}

const Value* Args::get(std::size_t i, std::string_view name) const {
  if (i < positional.size()) return &positional[i];
  return named.find(name);
}

Value Value::undefined(std::string_view name) {
  return undefined_because("'" + std::string(name) + "' is undefined");
}
Value Value::undefined_because(std::string_view reason) {
  Value v;
  v.string_ = std::make_shared<std::string>(reason);
  return v;
}
Value Value::none() {
  Value v;
  v.kind_ = Kind::kNone;
  return v;
}
Value Value::boolean(bool b) {
  Value v;
  v.kind_ = Kind::kBool;
  v.bits_.b = b;
  return v;
}
Value Value::integer(std::int64_t i) {
  Value v;
  v.kind_ = Kind::kInt;
  v.bits_.i = i;
  return v;
}
Value Value::number(double d) {
  Value v;
  v.kind_ = Kind::kFloat;
  v.bits_.d = d;
  return v;
}
Value Value::string(std::string s) {
  Value v;
  v.kind_ = Kind::kString;
  v.string_ = std::make_shared<std::string>(std::move(s));
  return v;
}
Value Value::list(List items) {
  Value v;
  v.kind_ = Kind::kList;
  v.list_ = std::make_shared<List>(std::move(items));
  v.weigh();
  return v;
}
Value Value::generated(List items) {
  Value v = list(std::move(items));
  v.generated_ = true;
  return v;
}
Value Value::tuple(List items) {
  Value v = list(std::move(items));
  v.kind_ = Kind::kTuple;
  return v;
}
Value Value::named_tuple(const std::vector<std::string_view>& names, List items) {
  Value v = tuple(std::move(items));
  v.dict_ = std::make_shared<Dict>();
  for (std::size_t i = 0; i < names.size(); ++i) v.dict_->set(names[i], v.as_list()[i]);
  return v;
}
Value Value::dict(Dict items) {
  Value v;
  v.kind_ = Kind::kDict;
  v.dict_ = std::make_shared<Dict>(std::move(items));
  v.weigh();
  return v;
}
Value Value::name_space(Dict items) {
  Value v;
  v.kind_ = Kind::kNamespace;
  v.dict_ = std::make_shared<Dict>(std::move(items));
  return v;
}
Value Value::function(Function f) {
  Value v;
  v.kind_ = Kind::kFunction;
  v.function_ = std::make_shared<Function>(std::move(f));
  return v;
}

std::uint64_t Value::weight() const {
  return kind_ == Kind::kString ? 1 + string_->size() / 64 : weight_;
}

void Value::weigh() {
  std::uint64_t sum = 1;
  int deepest = 0;
  const auto add = [&](const Value& v) {
    sum += v.weight();
    deepest = std::max<int>(deepest, v.depth_);
  };
  if (list_) std::for_each(list_->begin(), list_->end(), add);
  if (dict_) {
    for (const auto& [k, v] : dict_->items()) add(k), add(v);
  }
  if (sum > kWeightMax) throw TemplateError("a value grows too large");
  if (deepest >= kValueDepthMax) throw TemplateError("a value is nested too deeply");
  weight_ = static_cast<std::uint32_t>(sum);
  depth_ = static_cast<std::uint16_t>(deepest + 1);
}

void append_bounded(std::string& out, std::string_view text) {
  if (out.size() + text.size() > kTextMax) throw TemplateError("a string grows too long");
  out += text;
}

std::int64_t Value::as_int() const {
  return kind_ == Kind::kBool ? (bits_.b ? 1 : 0) : bits_.i;
}
double Value::as_double() const {
  return kind_ == Kind::kFloat ? bits_.d : static_cast<double>(as_int());
}

bool Value::truthy() const {
  switch (kind_) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return bits_.b;
    case Kind::kInt:
      return bits_.i != 0;
    case Kind::kFloat:
      return bits_.d != 0;
    case Kind::kString:
      return !string_->empty();
    case Kind::kList:
    case Kind::kTuple:
      return generated_ || !list_->empty();
    case Kind::kDict:
      return dict_->size() != 0;
    case Kind::kNamespace:
    case Kind::kFunction:
      return true;
  }
  return false;
}

std::string float_repr(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  char buffer[40];
  const double magnitude = std::fabs(d);
  // Python switches to exponents at 1e16 and below 1e-4; to_chars gives the same shortest digits.
  if (d != 0 && (magnitude >= 1e16 || magnitude < 1e-4)) {
    const auto r = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::scientific);
    return std::string(buffer, r.ptr);
  }
  const auto r = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::fixed);
  std::string text(buffer, r.ptr);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string Value::to_string() const {
  switch (kind_) {
    case Kind::kUndefined:
      return "";
    case Kind::kString:
      return *string_;
    default:
      return repr();
  }
}

namespace {

/// Implements Python's str.isprintable of one code point.
bool is_printable(std::int32_t p) {
  switch (utf8proc_category(p)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return p == ' ';
    default:
      return true;
  }
}

/// Returns a character as Python's repr writes it between quotes `quote`.
std::string escaped_python(const std::string& c, char quote) {
  if (c[0] == quote || c == "\\") return "\\" + c;
  if (c == "\n") return "\\n";
  if (c == "\r") return "\\r";
  if (c == "\t") return "\\t";
  const std::int32_t p = point_of(c);
  if (is_printable(p)) return c;
  const char* form = p < 0x100 ? "\\x%02x" : p < 0x10000 ? "\\u%04x" : "\\U%08x";
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, form, static_cast<unsigned>(p));
  return buffer;
}

std::string quote_python(const std::string& s) {
  const bool use_double = s.find('\'') != std::string::npos && s.find('"') == std::string::npos;
  const char quote = use_double ? '"' : '\'';
  std::string out(1, quote);
  for (const std::string& c : code_points(s)) out += escaped_python(c, quote);
  return out + quote;
}

std::string repr_of_dict(const Dict& dict) {
  std::string out;
  for (const auto& [k, v] : dict.items()) {
    append_bounded(out, (out.empty() ? "" : ", ") + k.repr() + ": " + v.repr());
  }
  return "{" + out + "}";
}

/// Returns the members' forms with commas between them.
std::string repr_of_members(const List& list) {
  std::string out;
  for (const Value& v : list) append_bounded(out, (out.empty() ? "" : ", ") + v.repr());
  return out;
}

bool equal_lists(const List& a, const List& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Value& x, const Value& y) { return x.equals(y); });
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [k, v] : a.items()) {
    const Value* o = b.find(k);
    if (o == nullptr || !v.equals(*o)) return false;
  }
  return true;
}

/// Returns -1, 0 or 1.
template <typename T>
int order_of(const T& a, const T& b) {
  if (a < b) return -1;
  return a > b ? 1 : 0;
}

/// Compares lists by their first unequal members, a prefix before the longer one.
int compare_lists(const List& a, const List& b) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (!a[i].equals(b[i])) return a[i].compare(b[i]);
  }
  return order_of(a.size(), b.size());
}

}  // namespace

std::string Value::repr() const {
  switch (kind_) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return bits_.b ? "True" : "False";
    case Kind::kInt:
      return std::to_string(bits_.i);
    case Kind::kFloat:
      return float_repr(bits_.d);
    case Kind::kString:
      return quote_python(*string_);
    case Kind::kFunction:
      return "<function>";
    case Kind::kNamespace:
      return "<Namespace>";
    case Kind::kDict:
      return repr_of_dict(*dict_);
    case Kind::kList:
      return "[" + repr_of_members(*list_) + "]";
    default:
      return "(" + repr_of_members(*list_) + (list_->size() == 1 ? ",)" : ")");
  }
}

const char* Value::type_name() const {
  switch (kind_) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kFunction:
      return "function";
  }
  return "object";
}

bool Value::equals(const Value& other) const {
  if (is_number() && other.is_number()) {
    if (kind_ != Kind::kFloat && other.kind_ != Kind::kFloat) return as_int() == other.as_int();
    return as_double() == other.as_double();
  }
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return *string_ == *other.string_;
    case Kind::kList:
    case Kind::kTuple:
      return equal_lists(*list_, *other.list_);
    case Kind::kDict:
      return equal_dicts(*dict_, *other.dict_);
    case Kind::kNamespace:
      return dict_ == other.dict_;
    default:
      return function_ == other.function_;
  }
}

bool Value::same_as(const Value& other) const {
  if (kind_ != other.kind_) return false;
  if (kind_ == Kind::kDict) return dict_ == other.dict_;
  return is_sequence() ? list_ == other.list_ : equals(other);
}

int Value::compare(const Value& other) const {
  if (is_number() && other.is_number()) {
    const bool whole = kind_ != Kind::kFloat && other.kind_ != Kind::kFloat;
    return whole ? order_of(as_int(), other.as_int()) : order_of(as_double(), other.as_double());
  }
  if (kind_ == Kind::kString && other.kind_ == Kind::kString) {
    return order_of(string_->compare(*other.string_), 0);
  }
  if (is_sequence() && kind_ == other.kind_) return compare_lists(*list_, *other.list_);
  throw TemplateError(std::string("'<' not supported between instances of '") + type_name() +
                      "' and '" + other.type_name() + "'");
}

std::vector<std::string> code_points(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t n = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    out.emplace_back(text.substr(i, n));
    i += n;
  }
  return out;
}

List iterate(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return {};
    case Kind::kList:
    case Kind::kTuple:
      return value.as_list();
    case Kind::kString: {
      List out;
      if (value.as_string().size() > kWeightMax) throw TemplateError("a value grows too large");
      for (std::string& c : code_points(value.as_string()))
        out.push_back(Value::string(std::move(c)));
      return out;
    }
    case Kind::kDict: {
      List out;
      for (const auto& [k, v] : value.as_dict().items()) out.push_back(k);
      return out;
    }
    default:
      throw TemplateError(std::string("'") + value.type_name() + "' object is not iterable");
  }
}

namespace {

void append_unicode_escape(std::string& out, std::uint32_t unit) {
  char buffer[8];
  std::snprintf(buffer, sizeof buffer, "\\u%04x", unit & 0xFFFF);
  out += buffer;
}

/// Appends the \u escapes of a character: one UTF-16 unit, or a pair of surrogates.
void append_utf16_escapes(std::string& out, std::uint32_t point) {
  if (point < 0x10000) return append_unicode_escape(out, point);
  point -= 0x10000;
  append_unicode_escape(out, 0xD800 + (point >> 10));
  append_unicode_escape(out, 0xDC00 + (point & 0x3FF));
}

/// Returns the letter after the backslash of a character's short escape; 0 if it has none.
char short_json_escape(char c) {
  switch (c) {
    case '"':
    case '\\':
      return c;
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    default:
      return 0;
  }
}

/// Returns true for the control characters that JSON escapes; DEL is one where all is ASCII.
bool is_json_control(char c, bool ensure_ascii) {
  return static_cast<unsigned char>(c) < 0x20 || (ensure_ascii && c == 0x7F);
}

void append_json_string(std::string& out, const std::string& s, bool ensure_ascii) {
  out += '"';
  for (std::size_t i = 0; i < s.size(); ++i) {
    const char c = s[i];
    if (const char escape = short_json_escape(c); escape != 0) {
      out += '\\', out += escape;
    } else if (ensure_ascii && (c & 0x80) != 0) {
      const std::int32_t point = point_of(std::string_view(s).substr(i));
      append_utf16_escapes(out, static_cast<std::uint32_t>(point));
      while (i + 1 < s.size() && (s[i + 1] & 0xC0) == 0x80) ++i;
    } else if (is_json_control(c, ensure_ascii)) {
      append_unicode_escape(out, static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

std::string json_number(double d) {
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d > 0 ? "Infinity" : "-Infinity";
  return float_repr(d);
}

/// One json.dumps call: its options and its output.
struct JsonWriter {
  std::string out;
  const JsonForm& form;

  void break_line(int depth) {
    if (!form.multi_line) return;
    append_bounded(out, "\n");
    for (int i = 0; i < depth; ++i) append_bounded(out, form.indent);
  }
  std::string key_text(const Value& key) const {
    switch (key.kind()) {
      case Kind::kString:
        return key.as_string();
      case Kind::kNone:
        return "null";
      case Kind::kBool:
        return key.as_bool() ? "true" : "false";
      case Kind::kInt:
        return std::to_string(key.as_int());
      case Kind::kFloat:
        return json_number(key.as_double());
      default:
        throw TemplateError("keys must be str, int, float, bool or None, not " +
                            std::string(key.type_name()));
    }
  }
  void write(const Value& value, int depth) {
    switch (value.kind()) {
      case Kind::kNone:
        out += "null";
        return;
      case Kind::kBool:
        out += value.as_bool() ? "true" : "false";
        return;
      case Kind::kInt:
        out += std::to_string(value.as_int());
        return;
      case Kind::kFloat:
        out += json_number(value.as_double());
        return;
      case Kind::kString:
        append_json_string(out, value.as_string(), form.ensure_ascii);
        return;
      case Kind::kList:
      case Kind::kTuple:
        write_list(value.as_list(), depth);
        return;
      case Kind::kDict:
        write_dict(value.as_dict(), depth);
        return;
      default:
        throw TemplateError(std::string("Object of type ") + value.type_name() +
                            " is not JSON serializable");
    }
  }
  void write_list(const List& items, int depth) {
    if (items.empty()) {
      out += "[]";
      return;
    }
    out += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i != 0) append_bounded(out, form.item_separator);
      break_line(depth + 1);
      write(items[i], depth + 1);
    }
    break_line(depth);
    out += ']';
  }
  void write_dict(const Dict& dict, int depth) {
    if (dict.size() == 0) {
      out += "{}";
      return;
    }
    std::vector<const DictEntry*> items;
    for (const auto& item : dict.items()) items.push_back(&item);
    if (form.sort_keys) {
      std::stable_sort(items.begin(), items.end(),
                       [](const auto* a, const auto* b) { return a->first.compare(b->first) < 0; });
    }
    out += '{';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i != 0) append_bounded(out, form.item_separator);
      break_line(depth + 1);
      append_json_string(out, key_text(items[i]->first), form.ensure_ascii);
      append_bounded(out, form.key_separator);
      write(items[i]->second, depth + 1);
    }
    break_line(depth);
    out += '}';
  }
};

Value from_nlohmann(const nlohmann::ordered_json& j) {
  using Type = nlohmann::ordered_json::value_t;
  switch (j.type()) {
    case Type::boolean:
      return Value::boolean(j.get<bool>());
    case Type::number_integer:
      return Value::integer(j.get<std::int64_t>());
    case Type::number_unsigned:
      if (j.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
        throw TemplateError("an integer in the JSON is out of range");
      }
      return Value::integer(static_cast<std::int64_t>(j.get<std::uint64_t>()));
    case Type::number_float:
      return Value::number(j.get<double>());
    case Type::string:
      return Value::string(j.get<std::string>());
    case Type::array: {
      List items;
      for (const auto& item : j) items.push_back(from_nlohmann(item));
      return Value::list(std::move(items));
    }
    case Type::object: {
      Dict items;
      for (const auto& [key, item] : j.items()) items.set(key, from_nlohmann(item));
      return Value::dict(std::move(items));
    }
    default:
      return Value::none();
  }
}

}  // namespace

std::string to_json(const Value& value, const JsonForm& form) {
  JsonWriter writer{{}, form};
  writer.write(value, 0);
  return std::move(writer.out);
}

Value from_json(std::string_view json) {
  constexpr JsonLimits kLimits = kDocumentLimits;
  const auto size = measure_json(json, kLimits);
  if (!size) throw TemplateError("JSON is " + size.error().what);
  const auto parsed = try_parse_json<nlohmann::ordered_json>(json, kLimits);
  if (parsed.is_discarded()) throw TemplateError("malformed JSON");
  return from_nlohmann(parsed);
}

}  // namespace holdfast::text::jinja
