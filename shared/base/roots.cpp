#include "shared/base/roots.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "shared/base/replace_file.h"

namespace holdfast {
namespace {

constexpr const char* kRootsFile = "/models.roots";

/// Returns true for an absolute path whose components each name a step down.
bool goes_down(std::string_view path) {
  if (path.empty() || path.front() != '/') return false;
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::string_view step = path.substr(0, path.find('/'));
    if (step == "." || step == "..") return false;
    path.remove_prefix(step.size());
  }
  return true;
}

bool is_below(std::string_view path, std::string_view root) {
  while (root.size() > 1 && root.back() == '/') root.remove_suffix(1);
  if (root == "/") return true;
  return path.size() > root.size() + 1 && path.starts_with(root) && path[root.size()] == '/';
}

}  // namespace

std::vector<std::string> split_roots(std::string_view roots) {
  std::vector<std::string> all;
  if (roots.empty()) return all;
  for (;;) {
    const std::size_t end = roots.find(':');
    all.emplace_back(roots.substr(0, end));
    if (end == std::string_view::npos) return all;
    roots.remove_prefix(end + 1);
  }
}

Result<void> good_roots(std::string_view roots) {
  for (const std::string& root : split_roots(roots)) {
    if (goes_down(root)) continue;
    return Error{Errc::kUsage, "\"" + root +
                                   "\" is no absolute path of a directory without . and ..; "
                                   "expected DIR:DIR… or nothing"};
  }
  return {};
}

Result<void> allowed_by_roots(std::string_view path, std::string_view roots) {
  if (roots.empty()) return {};
  const std::vector<std::string> all = split_roots(roots);
  const bool below = goes_down(path) && std::any_of(all.begin(), all.end(), [&](const auto& root) {
                       return is_below(path, root);
                     });
  if (below) return {};
  return Error{Errc::kUnauthorized,
               "the file " + std::string(path) + " is not below a directory of models.roots (" +
                   std::string(roots) + "); move it there or change models.roots"};
}

Result<void> write_roots(const std::string& run_dir, const std::string& roots) {
  return replace_file(run_dir + kRootsFile, roots);
}

std::optional<std::string> read_roots(const std::string& run_dir) {
  std::ifstream file(run_dir + kRootsFile);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace holdfast
