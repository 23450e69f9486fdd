#pragma once
// The supported values of "format", as regular expressions over whole strings. Their matches are
// valid by the standard that the name stands for; not every valid string is matched.

#include <string>

namespace holdfast::grammar {

/// Returns an empty text for an unknown name.
std::string format_pattern(const std::string& name);
/// The bounds of a format of integers ("int32").
struct IntegerFormat {
  const char* name;
  const char* min;
  const char* max;
};
/// Returns null for another name.
const IntegerFormat* integer_format(const std::string& name);

}  // namespace holdfast::grammar
