#pragma once
// The user who runs the CLI, for the record of a change.

#include <string>

namespace holdfast::cli {

/// The user's name, or the number of one without a name.
std::string operator_name();

}  // namespace holdfast::cli
