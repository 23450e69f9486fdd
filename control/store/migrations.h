#pragma once
// The steps that bring a database from one schema version to the next.

namespace holdfast::store {

/// The SQL of each step, from version 0 on (schema/NNN_name.sql); nullptr ends them. In a file of
/// its own, so that a test can link a program of another schema.
const char* const* migrations();

}  // namespace holdfast::store
