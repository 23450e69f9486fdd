#pragma once
// Confines a process: it gives up, for good, the rights that its work does not need.

#include <string>

#include "shared/sandbox/landlock.h"
#include "shared/sandbox/profile.h"

namespace holdfast::sandbox {

/// The rights that a process retains.
struct Policy {
  Profile profile = Profile::kHelper;
  FileRights files;
  NetRights net;
  bool network = false;  // sockets of the network, where the profile has none
};

/// The restrictions in force afterwards.
struct Confinement {
  Profile profile = Profile::kHelper;
  bool calls = false;    // the allow list of system calls
  int landlock_abi = 0;  // 0: paths, ports and scopes are not restricted
  bool relaxed = false;  // a sanitized or counted build, which makes calls of its own
};

/// Confines the process. Called on the first thread before there are others: Landlock holds for the
/// threads that this one starts. Always sets no_new_privs. Never fails: without support in the
/// kernel a restriction is left out, and the result says so.
Confinement confine(const Policy& policy);

/// Returns "system calls by list, Landlock 7", or the missing parts of it.
std::string describe(const Confinement& confinement);

/// Writes a warning if something is missing, else one line at level info.
void log_confinement(const Confinement& confinement);

}  // namespace holdfast::sandbox
