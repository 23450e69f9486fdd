#pragma once
// The limits that the kernel holds this process to, beside the machine's own: in a container they
// are the smaller ones. Groups of version 2 (Documentation/admin-guide/cgroup-v2.rst) and of
// version 1 (cgroup-v1/memory.rst, scheduler/sched-bwc.rst). `root` stands before /proc and /sys,
// for tests.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

struct ControlGroup {
  std::string folder;
  bool v2 = true;
};
/// The group of this process that `controller` ("cpu", "memory") watches and those above it, up to
/// the mount: a container sees its own group there. They need not exist.
std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root = "");

struct GroupMemory {
  std::int64_t limit = 0;  // bytes, the tightest of our group and those above it; 0 = none
  std::int64_t used = 0;   // by that group
};
GroupMemory group_memory(const std::string& root = "");

/// Processors whose time the group gets (a quota of 150 ms in 100 is 1.5), the tightest of our
/// group and those above it; 0 = no limit.
double group_processors(const std::string& root = "");

}  // namespace holdfast
