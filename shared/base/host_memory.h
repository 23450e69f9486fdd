#pragma once
// The memory that processes of this machine share, as the kernel bounds it: that of the machine and
// that of each control group above us with a limit of its own (cgroup v1 and v2). `root` stands
// before /proc and /sys, for tests.

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast {

/// One memory from which processes take, and what is left of it. Two processes share it if and only
/// if the keys are the same.
struct MemoryPool {
  std::string key;              // boot id of the machine; of a group also its number in the kernel
  std::int64_t total = 0;       // bytes; 0 = not known
  std::int64_t available = -1;  // that can be had without swapping; -1 = not known
  // Share of the last ten seconds in which everybody waited for memory, in 1/100 of a percent
  // (pressure stall information, "full avg10").
  std::int32_t stall = 0;
  // A device of several that a load is divided over: how much of a load lies here is not known.
  bool part = false;
};

/// The machine's first, then the groups from ours upwards. Empty where /proc/meminfo is missing.
std::vector<MemoryPool> host_memory_pools(const std::string& root = "");

/// This boot of this machine: the same for all processes, containers included; else its name.
std::string host_key(const std::string& root = "");

/// Bytes available in the tightest of them; -1 = not known.
std::int64_t available_memory(const std::vector<MemoryPool>& pools);

}  // namespace holdfast
