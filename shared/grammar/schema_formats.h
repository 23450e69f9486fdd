#pragma once
// The values of "format" that are honoured, as regular expressions over whole strings. What they
// match is valid by the standard that the name stands for; not everything valid is matched.

#include <string>

namespace holdfast::grammar {

/// Empty for a name that is not known.
std::string format_pattern(const std::string& name);
/// A format that says nothing about the text ("password", "float").
bool is_free_format(const std::string& name);
/// All names, for an error.
std::string format_names();

}  // namespace holdfast::grammar
