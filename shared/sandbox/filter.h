#pragma once
// The allow list of a profile as a seccomp filter:
// https://docs.kernel.org/userspace-api/seccomp_filter.html

#include "shared/sandbox/profile.h"

namespace holdfast::sandbox {

/// Filters every thread of this process and all that it starts, for good. Sets no_new_privs. False
/// if the kernel has no filters, or if one of ours does not load; then nothing has changed.
/// `network`: sockets of the network are allowed beside those of the profile.
bool filter_calls(Profile profile, bool network = false);

}  // namespace holdfast::sandbox
