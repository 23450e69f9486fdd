#pragma once
// The limits that the kernel holds this process to, beside the machine's own: in a container they
// are the smaller ones (cgroup v2, Documentation/admin-guide/cgroup-v2.rst). `root` stands before
// /proc and /sys, for tests.

#include <cstdint>
#include <string>

namespace holdfast {

struct GroupMemory {
  std::int64_t limit = 0;  // bytes, the tightest of our group and those above it; 0 = none
  std::int64_t used = 0;   // by that group
};
GroupMemory group_memory(const std::string& root = "");

/// Processors whose time the group gets (a quota of 150 ms in 100 is 1.5), the tightest of our
/// group and those above it; 0 = no limit.
double group_processors(const std::string& root = "");

}  // namespace holdfast
