#pragma once
// The memory limit that the kernel holds this process to, beside the machine's own memory: in a
// container it is the smaller one (cgroup v2, Documentation/admin-guide/cgroup-v2.rst).

#include <cstdint>
#include <string>

namespace holdfast {

struct GroupMemory {
  std::int64_t limit = 0;  // bytes, the tightest of our group and those above it; 0 = none
  std::int64_t used = 0;   // by that group
};
/// `root` stands before /proc and /sys, for tests.
GroupMemory group_memory(const std::string& root = "");

}  // namespace holdfast
