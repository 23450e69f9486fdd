#pragma once
// Real locations of a model's files, looked up before their reader loses the right to.

#include <string>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::ingress {

/// The real location of `path`, links followed, which must be below one of `roots` ("DIR:DIR…",
/// their links followed too; empty: anywhere). A folder also gives the targets of the links in it:
/// the hub's cache stores contents elsewhere. The first part of a file also gives the other parts.
/// kIo if something is missing; kUnauthorized names the roots.
Result<std::vector<std::string>> real_paths_below(const std::string& path,
                                                  const std::string& roots);

/// The names under which the files of the model at `path` are read; for a folder all entries, and
/// those of its directories, one level deep.
std::vector<std::string> names_of_files(const std::string& path);

}  // namespace holdfast::ingress
