#pragma once
// The limits of this process's control groups. In a container they are smaller than the machine's.
// Reads groups of version 2 (Documentation/admin-guide/cgroup-v2.rst) and of version 1
// (cgroup-v1/memory.rst, scheduler/sched-bwc.rst). `root` is prepended to /proc and /sys, for
// tests.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

/// A control group: its folder in the mounted file system, and its version.
struct ControlGroup {
  std::string folder;
  bool v2 = true;
};
/// Returns the group of this process under `controller` ("cpu", "memory") and those above it, up to
/// the mount: a container sees its own group there. They need not exist.
std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root = "");

/// The memory of this process's control groups.
struct GroupMemory {
  std::int64_t limit = 0;  // bytes, the tightest of our group and those above it; 0 = none
  std::int64_t used = 0;   // by that group
};
/// Returns the memory of the group with the tightest limit, of ours and those above it; limit 0 if
/// none has one.
GroupMemory group_memory(const std::string& root = "");

/// Returns the number of processors whose time the group gets (a quota of 150 ms in 100 is 1.5),
/// the least of our group and those above it; 0 = no limit.
double group_processors(const std::string& root = "");

}  // namespace holdfast
