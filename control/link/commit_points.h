#pragma once
// Crash points of a group: which of them it passes depends on what it writes.

#include <span>

#include "control/core/effects.h"

namespace holdfast::link {

/// `before` the commit of these rows, or after it and before anything of the group is sent.
void pass_commit_points(std::span<const core::RowChange> rows, bool before);

}  // namespace holdfast::link
