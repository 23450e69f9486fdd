#pragma once
// Who tries keys that are not known: one line a minute for each address, with how many there were.

#include <string>

namespace holdfast::gateway {

/// Counts an answer 401 to that address, and logs when it is time. Thread-safe.
void note_refused_key(const std::string& address);

}  // namespace holdfast::gateway
