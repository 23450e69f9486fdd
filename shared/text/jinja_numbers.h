#pragma once
// Filters of numbers (int, float, round, abs) as Jinja2 and Python have them, and arguments that
// are whole numbers.

#include "shared/text/jinja_builtins.h"

namespace holdfast::text::jinja {

/// Throws what a use of an undefined value says.
void require_defined(const Value& v);
/// An argument that is an integer or absent; throws for anything else.
std::int64_t whole_arg(const Args& args, std::size_t i, std::string_view name,
                       std::int64_t fallback);

Value filter_int(const Value& v, const Args& args, Runtime& runtime);
Value filter_float(const Value& v, const Args& args, Runtime& runtime);
Value filter_round(const Value& v, const Args& args, Runtime& runtime);
Value filter_abs(const Value& v, const Args& args, Runtime& runtime);

}  // namespace holdfast::text::jinja
