#include "shared/base/cgroup.h"

#include <fstream>

namespace holdfast {
namespace {

/// The least value that means "no limit": groups of version 1 without one have about 2^63 here.
constexpr std::int64_t kUnlimited = std::int64_t{1} << 60;

/// Returns 0 for "max" and for a missing file.
std::int64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value ? value : 0;
}

/// Adds `group` and those above it, below the mount.
void add_upwards(const std::string& mount, std::string group, bool v2,
                 std::vector<ControlGroup>& out) {
  for (;;) {
    if (group == "/") group.clear();
    out.push_back({mount + group, v2});
    if (group.empty()) return;
    const std::size_t slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
}

GroupMemory memory_of(const ControlGroup& group) {
  if (group.v2) {
    return {number_in(group.folder + "/memory.max"), number_in(group.folder + "/memory.current")};
  }
  const std::int64_t limit = number_in(group.folder + "/memory.limit_in_bytes");
  return {limit < kUnlimited ? limit : 0, number_in(group.folder + "/memory.usage_in_bytes")};
}

/// Returns 0 where there is no limit ("max 100000", or a quota of -1).
double processors_of(const ControlGroup& group) {
  double quota = 0, period = 0;
  if (group.v2) {
    std::ifstream file(group.folder + "/cpu.max");
    if (!(file >> quota >> period)) return 0;
  } else {
    quota = static_cast<double>(number_in(group.folder + "/cpu.cfs_quota_us"));
    period = static_cast<double>(number_in(group.folder + "/cpu.cfs_period_us"));
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root) {
  std::vector<ControlGroup> all;
  const std::string pattern = "," + std::string(controller) + ",";
  std::ifstream membership(root + "/proc/self/cgroup");
  for (std::string line; std::getline(membership, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") {
      add_upwards(root + "/sys/fs/cgroup", group, true, all);
      add_upwards(root + "/sys/fs/cgroup/unified", group, true, all);
    } else if (controllers.find(pattern) != std::string::npos) {
      add_upwards(root + "/sys/fs/cgroup/" + std::string(controller), group, false, all);
    }
  }
  return all;
}

GroupMemory group_memory(const std::string& root) {
  GroupMemory found;
  for (const ControlGroup& group : control_groups("memory", root)) {
    const GroupMemory memory = memory_of(group);
    if (memory.limit > 0 && (found.limit == 0 || memory.limit < found.limit)) found = memory;
  }
  return found;
}

double group_processors(const std::string& root) {
  double found = 0;
  for (const ControlGroup& group : control_groups("cpu", root)) {
    const double processors = processors_of(group);
    if (processors > 0 && (found == 0 || processors < found)) found = processors;
  }
  return found;
}

}  // namespace holdfast
