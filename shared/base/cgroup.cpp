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

/// f(folder) of our group and those above it.
template <class F>
void for_each_group(const std::string& root, F f) {
  std::ifstream membership(root + "/proc/self/cgroup");
  std::string group;
  for (std::string line; std::getline(membership, line);) {
    if (line.starts_with("0::")) group = line.substr(3);
  }
  while (!group.empty()) {
    if (group == "/") group.clear();
    f(root + "/sys/fs/cgroup" + group);
    if (group.empty()) return;
    group.resize(group.rfind('/'));
    if (group.empty()) group = "/";
  }
}

}  // namespace

GroupMemory group_memory(const std::string& root) {
  GroupMemory found;
  for_each_group(root, [&](const std::string& folder) {
    const std::int64_t limit = number_in(folder + "/memory.max");
    if (limit > 0 && (found.limit == 0 || limit < found.limit)) {
      found = {limit, number_in(folder + "/memory.current")};
    }
  });
  return found;
}

double group_processors(const std::string& root) {
  double found = 0;
  for_each_group(root, [&](const std::string& folder) {
    std::ifstream file(folder + "/cpu.max");
    double quota = 0, period = 0;  // "max 100000" is no limit
    if (!(file >> quota >> period) || quota <= 0 || period <= 0) return;
    if (found == 0 || quota / period < found) found = quota / period;
  });
  return found;
}

}  // namespace holdfast
