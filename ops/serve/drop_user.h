#pragma once
// `serve --user NAME`: a start as root that gives root up.

#include <string>

#include "shared/base/result.h"

namespace holdfast::cli {

/// Changes for good to the user's groups, group and id, without any capability, also for programs
/// that are executed later. HOME and USER become that user's. To be called before anything is
/// opened and before there are threads. kUsage if there is no such user, or if this process is not
/// root and not that user already.
Result<void> become_user(const std::string& name);

/// A warning about a process that keeps root; empty if this one is not root.
std::string root_warning();

}  // namespace holdfast::cli
