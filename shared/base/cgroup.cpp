#include "shared/base/cgroup.h"

#include <fstream>

namespace holdfast {
namespace {

/// 0 for "max" and for what is not there.
std::int64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value ? value : 0;
}

}  // namespace

GroupMemory group_memory(const std::string& root) {
  GroupMemory found;
  std::ifstream membership(root + "/proc/self/cgroup");
  std::string group;
  for (std::string line; std::getline(membership, line);) {
    if (line.starts_with("0::")) group = line.substr(3);
  }
  if (group.empty()) return found;
  for (;;) {
    if (group == "/") group.clear();
    const std::string folder = root + "/sys/fs/cgroup" + group;
    const std::int64_t limit = number_in(folder + "/memory.max");
    if (limit > 0 && (found.limit == 0 || limit < found.limit)) {
      found = {limit, number_in(folder + "/memory.current")};
    }
    if (group.empty()) return found;
    group.resize(group.rfind('/'));
  }
}

}  // namespace holdfast
