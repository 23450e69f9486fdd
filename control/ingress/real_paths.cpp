#include "control/ingress/real_paths.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "shared/base/roots.h"
#include "shared/huggingface/folder.h"

namespace holdfast::ingress {
namespace {

Result<std::string> real_path(const std::string& path) {
  char real[PATH_MAX];
  if (realpath(path.c_str(), real) == nullptr) {
    return Error{Errc::kIo, path + ": " + std::strerror(errno)};
  }
  return std::string(real);
}

Result<std::string> real_path_below(const std::string& path, const std::string& roots) {
  HOLDFAST_TRY(const std::string real, real_path(path));
  if (roots.empty()) return real;
  std::string real_roots;
  for (const std::string& root : split_roots(roots)) {
    const Result<std::string> where = real_path(root);
    if (where) real_roots += (real_roots.empty() ? "" : ":") + where.value();
  }
  if (!real_roots.empty() && allowed_by_roots(real, real_roots)) return real;
  return Error{Errc::kUnauthorized, path + ": leads to " + real +
                                        ", which is not below a directory of models.roots (" +
                                        roots + "); move it there or change models.roots"};
}

}  // namespace

Result<std::vector<std::string>> real_paths_below(const std::string& path,
                                                  const std::string& roots) {
  std::vector<std::string> all(1);
  HOLDFAST_TRY(all[0], real_path_below(path, roots));
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) {  // a file, which may have more parts
    HOLDFAST_TRY(const std::vector<std::string> files, huggingface::files_of(path));
    for (std::size_t i = 1; i < files.size(); ++i) {
      HOLDFAST_TRY(std::string real, real_path_below(files[i], roots));
      all.push_back(std::move(real));
    }
    return all;
  }
  std::vector<std::string> links;
  while (const dirent* entry = readdir(folder)) {
    struct stat st = {};
    const bool link =
        fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
    if (link) links.push_back(path + "/" + entry->d_name);
  }
  closedir(folder);
  for (const std::string& link : links) {
    HOLDFAST_TRY(std::string real, real_path_below(link, roots));
    all.push_back(std::move(real));
  }
  return all;
}

std::vector<std::string> names_of_files(const std::string& path) {
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) {
    const auto files = huggingface::files_of(path);
    return files ? files.value() : std::vector<std::string>{path};
  }
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    names.push_back(path + "/" + name);
    DIR* inner = opendir(names.back().c_str());
    if (inner == nullptr) continue;
    const std::string prefix = names.back() + "/";
    while (const dirent* file = readdir(inner)) names.push_back(prefix + file->d_name);
    closedir(inner);
  }
  closedir(folder);
  return names;
}

}  // namespace holdfast::ingress
