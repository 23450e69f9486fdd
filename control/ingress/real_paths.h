#pragma once
// Where a model's files really lie, looked up before the process that reads them may look no more.

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

/// The names under which the files of the model at `path` are read: of a folder all that is in it
/// and in its directories, one level deep.
std::vector<std::string> names_of_files(const std::string& path);

}  // namespace holdfast::ingress
