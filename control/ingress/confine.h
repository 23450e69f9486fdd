#pragma once
// The child that reads an untrusted model file can do that and nothing else.

#include <string>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::ingress {

/// Where `path` really lies, links followed, and that this is below one of `roots` ("DIR:DIR…",
/// their links followed too; empty: anywhere). Of a folder also where the links in it lead: the
/// hub's cache keeps contents elsewhere. Of the first part of a file also the others. kIo if
/// something is not there, kUnauthorized names roots.
Result<std::vector<std::string>> real_paths_below(const std::string& path,
                                                  const std::string& roots);

/// What this process may still do.
struct Confinement {
  bool files = false;     // nothing but `real_paths` can be opened, nothing written (Landlock)
  bool syscalls = false;  // no network, no new process or program, no signal to others (seccomp)
};

/// For the rest of this process. A path is a file, or a directory with all that is in it. A kernel
/// that lacks one of the two goes without it: limit_this_process holds all the same.
Confinement confine_this_process(const std::vector<std::string>& real_paths);

}  // namespace holdfast::ingress
