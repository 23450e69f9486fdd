#pragma once
// Values of the template language: Python's, as far as chat templates can distinguish.

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::text::jinja {

/// An error of a template. Thrown inside the template engine only; caught at its border
/// (chat_template.cpp).
struct TemplateError : std::runtime_error {
  explicit TemplateError(const std::string& what, int at_line = 0)
      : std::runtime_error(what), line(at_line) {}
  int line;  // 0 = unknown yet: the statement being executed sets it
};

class Value;
using List = std::vector<Value>;

struct DictEntry;  // {first: key, second: value}

/// Insertion-ordered map (JSON objects, dict literals, namespaces). Linear lookup: the dicts of
/// templates and chat requests are small. Equal keys are one: 1, 1.0 and true.
class Dict {
 public:
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
  void set(std::string_view key, Value value);
  void set(const Value& key, Value value);
  std::size_t size() const;
  const std::vector<DictEntry>& items() const { return items_; }

 private:
  std::vector<DictEntry> items_;
};

/// The arguments of a call.
struct Args {
  List positional;
  Dict named;
  /// Returns positional argument i, or the one named `name`, or nullptr.
  const Value* get(std::size_t i, std::string_view name) const;
};
using Function = std::function<Value(const Args&)>;

/// The type of a value; kUndefined is the value of a name that is not set.
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

/// A value. Cheap to copy: containers are shared. Not thread-safe (one rendering, one thread).
class Value {
 public:
  Value() = default;  // undefined
  static Value undefined(std::string_view name);
  /// Returns an undefined value with the whole sentence of the error at its use.
  static Value undefined_because(std::string_view reason);
  static Value none();
  static Value boolean(bool b);
  static Value integer(std::int64_t i);
  static Value number(double d);
  static Value string(std::string s);
  static Value list(List items);
  /// Returns a list that is true even when it is empty, like a generator of Python.
  static Value generated(List items);
  static Value tuple(List items);
  /// Returns a tuple whose items have names too (Python's namedtuple).
  static Value named_tuple(const std::vector<std::string_view>& names, List items);
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
  /// Returns the names of a named tuple's items, or nullptr.
  const Dict* fields() const { return kind_ == Kind::kTuple ? dict_.get() : nullptr; }
  /// Returns the error of an undefined value's use.
  std::string undefined_text() const { return string_ ? *string_ : "the value is undefined"; }
  /// Returns the work of walking the value: 1, and for a string each 64 bytes, for a container its
  /// items (shared ones each time), count 1 more. Bounded, as is nesting: see kWeightMax.
  std::uint64_t weight() const;

  bool truthy() const;
  std::string to_string() const;  // str(x)
  std::string repr() const;       // repr(x)
  const char* type_name() const;  // Python's: "str", "NoneType", …
  bool equals(const Value& other) const;
  /// Implements Python's `is` as far as possible: one container, or values that are equal in kind
  /// too.
  bool same_as(const Value& other) const;
  /// Returns <0, 0, >0; TypeError for values that cannot be compared.
  int compare(const Value& other) const;

 private:
  void weigh();

  Kind kind_ = Kind::kUndefined;
  bool generated_ = false;
  std::uint16_t depth_ = 0;  // of containers in containers
  std::uint32_t weight_ = 1;
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

/// A key of a dictionary with its value.
struct DictEntry {
  Value first;
  Value second;
};

// Bounds values that templates build of shared parts as if nothing were shared.
constexpr std::uint64_t kWeightMax = 1u << 20;
constexpr int kValueDepthMax = 500;
constexpr std::size_t kTextMax = 8u << 20;  // bytes of one string

/// Appends a text; throws if the result exceeds kTextMax.
void append_bounded(std::string& out, std::string_view text);

/// The arguments of json.dumps.
struct JsonForm {
  bool ensure_ascii = false;
  bool multi_line = false;
  std::string indent;  // of one level, if multi_line
  bool sort_keys = false;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
/// Writes a value as json.dumps does. Throws TemplateError for one that JSON has no form for.
std::string to_json(const Value& value, const JsonForm& form);
/// Converts JSON text to a value. Throws TemplateError on malformed JSON or nesting over 64.
Value from_json(std::string_view json);
/// Implements Python's repr(float).
std::string float_repr(double d);
/// Returns the items of an iteration; TypeError if the value is not iterable. A string has its code
/// points.
List iterate(const Value& value);
/// Returns the code points of valid UTF-8.
std::vector<std::string> code_points(std::string_view text);

}  // namespace holdfast::text::jinja
