#pragma once
// Counts and logs refused calls of a confined process, where a refusal does not kill.

#include <cstdint>
#include <string_view>

namespace holdfast::sandbox {

/// Installs the handler: a call that the filter traps fails with EPERM, is counted, and is logged
/// on stderr: the first of each kind, then each time that their number has doubled. The names of
/// calls are looked up before the filter is in force.
void count_refusals(std::string_view program);

/// Returns the trapped calls so far, of all kinds.
std::uint64_t refused_calls();

}  // namespace holdfast::sandbox
