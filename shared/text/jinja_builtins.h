#pragma once
// Filters, tests, methods and globals of the template language.

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/text/jinja_value.h"

namespace holdfast::text::jinja {

inline constexpr std::int64_t kRangeMax = 100'000;  // of a range, as Jinja2's sandbox; of rows

/// What builtins may use of the running template: calls back and counts work.
struct Runtime {
  virtual ~Runtime() = default;
  /// Counts `n` units of work; throws when the template's budget is used up.
  virtual void spend(std::uint64_t n) = 0;
};

/// value | name(args). Throws TemplateError for an unknown filter.
Value apply_filter(std::string_view name, const Value& value, const Args& args, Runtime& runtime);
/// value is name(args).
bool apply_test(std::string_view name, const Value& value, const Args& args);
/// object.name where `name` is a method of Python's str, dict or list; undefined if there is none.
Value bound_method(const Value& object, std::string_view name);
/// range, dict, namespace, joiner, raise_exception, strftime_now; undefined if there is none.
/// `date` is YYYY-MM-DD.
Value global_function(std::string_view name, const std::string& date);
/// object[key] or object.key without methods: undefined when missing.
Value get_item(const Value& object, const Value& key);

}  // namespace holdfast::text::jinja
