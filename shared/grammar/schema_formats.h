#pragma once
// The values of "format" that are honoured, as regular expressions over whole strings. What they
// match is valid by the standard that the name stands for; not everything valid is matched.

#include <string>

namespace holdfast::grammar {

/// Empty for a name that is not known.
std::string format_pattern(const std::string& name);
/// A format of integers ("int32") as its bounds.
struct IntegerFormat {
  const char* name;
  const char* min;
  const char* max;
};
/// Null for a name that is none.
const IntegerFormat* integer_format(const std::string& name);

}  // namespace holdfast::grammar
