#pragma once
// Jinja2's and Python's filters of numbers (int, float, round, abs), and integer arguments.

#include "shared/jinja/builtins.h"

namespace holdfast::text::jinja {

/// Throws the error of an undefined value's use.
void require_defined(const Value& v);
/// Returns an argument that is an integer or absent; throws for anything else.
std::int64_t whole_arg(const Args& args, std::size_t i, std::string_view name,
                       std::int64_t fallback);

/// Implement the filters int, float, round and abs as Jinja2 does. Throw TemplateError for an
/// undefined value; round and abs also for one that is no number.
Value filter_int(const Value& v, const Args& args, Runtime& runtime);
Value filter_float(const Value& v, const Args& args, Runtime& runtime);
Value filter_round(const Value& v, const Args& args, Runtime& runtime);
Value filter_abs(const Value& v, const Args& args, Runtime& runtime);

}  // namespace holdfast::text::jinja
