#pragma once
// Values of the template language: Python's, as far as chat templates can tell.

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::text::jinja {

/// Thrown inside the template engine only; caught at its border (chat_template.cpp).
struct TemplateError : std::runtime_error {
  explicit TemplateError(const std::string& what, int at_line = 0)
      : std::runtime_error(what), line(at_line) {}
  int line;  // 0 = not known yet: the statement being executed fills it in
};

class Value;
using List = std::vector<Value>;

struct DictEntry;  // {first: key, second: value}

/// Insertion-ordered string-keyed map (JSON objects, dict literals, namespaces). Linear lookup:
/// the dicts of templates and chat requests are small.
class Dict {
 public:
  const Value* find(std::string_view key) const;
  void set(std::string_view key, Value value);
  std::size_t size() const;
  const std::vector<DictEntry>& items() const { return items_; }

 private:
  std::vector<DictEntry> items_;
};

/// Arguments of a call.
struct Args {
  List positional;
  Dict named;
  /// Positional argument i, or the one called `name`, or nullptr.
  const Value* get(std::size_t i, std::string_view name) const;
};
using Function = std::function<Value(const Args&)>;

enum class Kind : std::uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kNamespace,
  kFunction
};

/// Cheap to copy: containers are shared. Not thread-safe (one rendering, one thread).
class Value {
 public:
  Value() = default;  // undefined
  static Value undefined(std::string_view name);
  static Value none();
  static Value boolean(bool b);
  static Value integer(std::int64_t i);
  static Value number(double d);
  static Value string(std::string s);
  static Value list(List items);
  static Value tuple(List items);
  static Value dict(Dict items);
  static Value name_space(Dict items);
  static Value function(Function f);

  Kind kind() const { return kind_; }
  bool is(Kind k) const { return kind_ == k; }
  bool is_number() const {
    return kind_ == Kind::kInt || kind_ == Kind::kFloat || kind_ == Kind::kBool;
  }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }

  bool as_bool() const { return bits_.b; }
  std::int64_t as_int() const;  // int and bool
  double as_double() const;     // int, float, bool
  const std::string& as_string() const { return *string_; }
  const List& as_list() const { return *list_; }
  const Dict& as_dict() const { return *dict_; }
  Dict& mutable_dict() const { return *dict_; }  // namespaces only
  const Function& as_function() const { return *function_; }
  /// What an undefined value was called, for its error text.
  std::string undefined_name() const { return string_ ? *string_ : std::string("value"); }

  bool truthy() const;
  std::string to_string() const;  // str(x)
  std::string repr() const;       // repr(x)
  const char* type_name() const;  // Python's: "str", "NoneType", …
  bool equals(const Value& other) const;
  /// <0, 0, >0; TypeError for unlike types.
  int compare(const Value& other) const;

 private:
  Kind kind_ = Kind::kUndefined;
  union {
    bool b;
    std::int64_t i;
    double d;
  } bits_ = {.i = 0};
  std::shared_ptr<std::string> string_;
  std::shared_ptr<List> list_;
  std::shared_ptr<Dict> dict_;
  std::shared_ptr<Function> function_;
};

struct DictEntry {
  std::string first;
  Value second;
};

/// json.dumps(value, ensure_ascii=False): indent < 0 = one line with ", " and ": ".
std::string to_json(const Value& value, int indent, bool sort_keys, std::string_view item_separator,
                    std::string_view key_separator);
/// JSON text to a value. Throws TemplateError on malformed JSON or nesting over 64.
Value from_json(std::string_view json);
/// Python's repr(float).
std::string float_repr(double d);
/// What iterating gives; TypeError if it is not iterable. A string gives its code points.
List iterate(const Value& value);
/// Code points of valid UTF-8.
std::vector<std::string> code_points(std::string_view text);

}  // namespace holdfast::text::jinja
