#pragma once
// Directories that a model's file must lie in. Only names are compared here; the child that reads
// the file follows them on the disk (control/ingress/real_paths.h).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast {

/// Returns the directories of `models.roots`, "DIR:DIR…".
std::vector<std::string> split_roots(std::string_view roots);

/// Returns kUsage unless every directory is an absolute path without "." and "..". An empty text is
/// good.
Result<void> good_roots(std::string_view roots);

/// Returns success if `path` may be a model's file: absolute, without "." and "..", below one of
/// the directories. Without roots every path may. Else kUnauthorized, which says where it may lie.
Result<void> allowed_by_roots(std::string_view path, std::string_view roots);

/// Writes the daemon's `models.roots` into `run_dir`, for processes that may not read the database.
Result<void> write_roots(const std::string& run_dir, const std::string& roots);
/// Returns nullopt where the daemon has written nothing.
std::optional<std::string> read_roots(const std::string& run_dir);

}  // namespace holdfast
