#pragma once
// `serve --user NAME`: a start as root that gives root up.

#include <string>

#include "shared/base/result.h"

namespace holdfast::cli {

/// For good: groups, group, user, and every capability, also of programs that are executed later.
/// HOME and USER become that user's. Before anything is opened and before there are threads. kUsage
/// if there is no such user, or if this process is not root and not that user already.
Result<void> become_user(const std::string& name);

/// What to say about a process that keeps root; empty if it is not root.
std::string root_warning();

}  // namespace holdfast::cli
