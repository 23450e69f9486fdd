#pragma once
// Under which directories a model's file must lie. Only names are looked at here; the child that
// reads the file follows them on the disk (control/ingress/real_paths.h).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast {

/// The directories of `models.roots`, "DIR:DIR…".
std::vector<std::string> split_roots(std::string_view roots);

/// kUsage unless every directory is an absolute path without "." and "..". An empty text is good.
Result<void> good_roots(std::string_view roots);

/// Whether `path` may be a model's file: absolute, without "." and "..", below one of the
/// directories. Without roots every path may. kUnauthorized says where it may lie.
Result<void> allowed_by_roots(std::string_view path, std::string_view roots);

/// What the daemon tells those that may not look into the database: its `models.roots` in RUN_DIR.
Result<void> write_roots(const std::string& run_dir, const std::string& roots);
/// nullopt: it has told nothing.
std::optional<std::string> read_roots(const std::string& run_dir);

}  // namespace holdfast
