#pragma once
// Log of refused keys: one line a minute for each address that tries unknown keys, with their
// number.

#include <string>

namespace holdfast::gateway {

/// Counts a 401 to that address, and logs when a minute is over. Thread-safe.
void note_refused_key(const std::string& address);

}  // namespace holdfast::gateway
