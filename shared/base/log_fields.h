#pragma once
// Log lines whose fields are made at run time. A header of its own, as everybody includes log.h.

#include <vector>

#include "shared/base/log.h"

namespace holdfast::log {

/// Writes a line like write(), with each field under its own name.
void write_fields(Level level, std::string_view event, const std::vector<Field>& fields);

/// Returns true if a line of this level is written. Ask before computing fields that are expensive.
bool enabled(Level level);

}  // namespace holdfast::log
