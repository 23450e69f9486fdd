#pragma once
// The version of all Holdfast programs: they are built and installed together.

namespace holdfast {

inline constexpr const char* kVersion = "0.1.0";

/// Prints "PROGRAM VERSION" to stdout and returns true if the only argument is --version.
bool printed_version(int argc, const char* const* argv, const char* program);

}  // namespace holdfast
