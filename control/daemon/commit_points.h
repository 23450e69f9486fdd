#pragma once
// Crash points of a group, which depend on the rows that it writes.

#include <span>

#include "control/core/effects.h"

namespace holdfast::daemon {

/// Passes the points `before` the commit of these rows, or those after it and before any message of
/// the group is sent.
void pass_commit_points(std::span<const core::RowChange> rows, bool before);

}  // namespace holdfast::daemon
