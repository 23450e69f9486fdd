#pragma once
// Log lines whose fields are put together at run time. Apart from log.h, which everybody includes.

#include <vector>

#include "shared/base/log.h"

namespace holdfast::log {

/// As write(), each field by its own name.
void write_fields(Level level, std::string_view event, const std::vector<Field>& fields);

/// Whether a line of this level would be written: asked before fields that cost something.
bool enabled(Level level);

}  // namespace holdfast::log
