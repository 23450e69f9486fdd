#pragma once
// A process gives up, for good, what its work does not need.

#include <string>

#include "shared/sandbox/landlock.h"
#include "shared/sandbox/profile.h"

namespace holdfast::sandbox {

struct Wish {
  Profile profile = Profile::kHelper;
  FileRights files;
  NetRights net;
};

/// What is in force afterwards.
struct Confinement {
  Profile profile = Profile::kHelper;
  bool calls = false;    // the allow list of system calls
  int landlock_abi = 0;  // 0: paths, ports and scopes are not restricted
  bool relaxed = false;  // a sanitized or counted build, which makes calls of its own
};

/// Call it on the first thread before there are others: Landlock holds for the threads that come
/// from this one. Always sets no_new_privs. Never fails: a kernel that lacks something goes without
/// it, and the answer says so.
Confinement confine(const Wish& wish);

/// "system calls by list, Landlock 7", or what is missing of it.
std::string describe(const Confinement& confinement);

/// Writes one warning if something is missing, else one line at level info.
void log_confinement(const Confinement& confinement);

}  // namespace holdfast::sandbox
