#pragma once
// Calls that a confined process was refused, where refusing is not killing: counted and logged.

#include <cstdint>
#include <string_view>

namespace holdfast::sandbox {

/// From now on a call that the filter traps fails with EPERM, is counted, and is logged on stderr:
/// the first of each kind, then every time that their number has doubled. The names of calls are
/// looked up before the filter is there.
void count_refusals(std::string_view program);

/// Trapped calls so far, of all kinds.
std::uint64_t refused_calls();

}  // namespace holdfast::sandbox
