#pragma once
// Variables of the environment.

#include <cstdlib>
#include <string>

namespace holdfast {

/// Returns the variable's value; empty if it is not set. Not while another thread sets variables.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace holdfast
