#pragma once
// Python's two functions to format values into a text: "%s" % x and "{}".format(x).

#include <string>

#include "shared/jinja/value.h"

namespace holdfast::text::jinja {

/// Returns format % value. A tuple has several values, a dict those of "%(name)s".
std::string percent_format(const std::string& format, const Value& value);
/// Returns format.format(args). Attributes and items in a field are refused, as is nesting
/// (sandbox).
std::string brace_format(const std::string& format, const Args& args);

}  // namespace holdfast::text::jinja
