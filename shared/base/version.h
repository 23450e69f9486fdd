#pragma once
// The version of all our programs: they are built and installed together.

namespace holdfast {

inline constexpr const char* kVersion = "0.1.0";

/// True if the only argument is --version; then "PROGRAM VERSION" has been printed to stdout.
bool printed_version(int argc, const char* const* argv, const char* program);

}  // namespace holdfast
