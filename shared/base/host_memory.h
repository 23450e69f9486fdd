#pragma once
// Memory pools of this host, as the kernel bounds them: the machine's, and that of each control
// group above us with a limit (cgroup v1 and v2). `root` is prepended to /proc and /sys, for tests.

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast {

/// One memory that processes share, and what is available of it. Two processes share a pool if and
/// only if the keys are equal.
struct MemoryPool {
  std::string key;              // boot id of the machine; for a group also its number in the kernel
  std::int64_t total = 0;       // bytes; 0 = unknown
  std::int64_t available = -1;  // bytes without swapping; -1 = unknown
  // Share of the last ten seconds in which all tasks waited for memory, in 1/100 of a percent
  // (pressure stall information, "full avg10").
  std::int32_t stall = 0;
  // One of several devices that a load is divided over: the load's share of this memory is unknown.
  bool part = false;
};

/// Returns the machine's pool, then the groups' from ours upwards. Empty without /proc/meminfo.
std::vector<MemoryPool> host_memory_pools(const std::string& root = "");

/// Returns the boot id of this machine, the same in all processes and containers; else its host
/// name.
std::string host_key(const std::string& root = "");

/// Returns the available bytes of the tightest pool; -1 = unknown.
std::int64_t available_memory(const std::vector<MemoryPool>& pools);

}  // namespace holdfast
