#pragma once
// Filters, tests, methods and globals of the template language.

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/jinja/value.h"

namespace holdfast::text::jinja {

inline constexpr std::int64_t kRangeMax = 100'000;  // of a range, as Jinja2's sandbox; of rows

/// The running template's services for builtins: calls back and counts work.
struct Runtime {
  virtual ~Runtime() = default;
  /// Counts `n` units of work; throws when the template's budget is exhausted.
  virtual void spend(std::uint64_t n) = 0;
};

/// Evaluates value | name(args). Throws TemplateError for an unknown filter.
Value apply_filter(std::string_view name, const Value& value, const Args& args, Runtime& runtime);
/// Evaluates value is name(args).
bool apply_test(std::string_view name, const Value& value, const Args& args);
/// Returns object.name where `name` is a method of Python's str, dict or list; undefined if there
/// is none.
Value bound_method(const Value& object, std::string_view name);
/// Returns range, dict, namespace, joiner, raise_exception or strftime_now; undefined for another
/// name. `date` is YYYY-MM-DD.
Value global_function(std::string_view name, const std::string& date);
/// Returns object[key] or object.key without methods: undefined when missing.
Value get_item(const Value& object, const Value& key);

}  // namespace holdfast::text::jinja
