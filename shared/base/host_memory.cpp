#include "shared/base/host_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>

#include "shared/base/cgroup.h"

namespace holdfast {
namespace {

/// Reads "name value" lines, as /proc and control groups write them.
std::map<std::string, std::int64_t> numbers_in(const std::string& path) {
  std::map<std::string, std::int64_t> found;
  std::ifstream file(path);
  std::string key, rest;
  for (std::int64_t value = 0; file >> key >> value; std::getline(file, rest)) found[key] = value;
  return found;
}

/// Returns 0 for "max" and for a missing file.
std::int64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value && value > 0 ? value : 0;
}

/// Reads "full avg10=0.12 …" in hundredths of a percent; 0 where the kernel does not count it.
std::int32_t stall_in(const std::string& path) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    if (word != "full" || !(file >> word) || word.rfind("avg10=", 0) != 0) continue;
    try {
      return static_cast<std::int32_t>(std::lround(std::stod(word.substr(6)) * 100));
    } catch (const std::exception&) {
      return 0;
    }
  }
  return 0;
}

/// Bytes that the kernel frees before it refuses: clean pages of files, half of the active ones.
std::int64_t reclaimable(std::int64_t inactive, std::int64_t active, std::int64_t slab) {
  return inactive + active / 2 + slab;
}

/// A group's memory as its files say it.
struct GroupMemory {
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  std::int64_t used = 0;
  std::int64_t reclaimable = 0;
  std::int32_t stall = 0;

  /// Lowers the limit to a bound; 0 is none.
  void bound(std::int64_t bytes) {
    if (bytes > 0) limit = std::min(limit, bytes);
  }
};

GroupMemory memory_of(const ControlGroup& group) {
  GroupMemory memory;
  const auto stat_numbers = numbers_in(group.folder + "/memory.stat");
  const auto stat_of = [&](const char* key) {
    const auto it = stat_numbers.find(key);
    return it == stat_numbers.end() ? 0 : it->second;
  };
  if (!group.v2) {
    memory.bound(number_in(group.folder + "/memory.limit_in_bytes"));
    memory.used = number_in(group.folder + "/memory.usage_in_bytes");
    memory.reclaimable =
        reclaimable(stat_of("total_inactive_file"), stat_of("total_active_file"), 0);
    return memory;
  }
  // Above `high` the kernel slows a group down until it frees memory: not usable for weights
  // either.
  for (const char* file : {"/memory.max", "/memory.high"}) {
    memory.bound(number_in(group.folder + file));
  }
  memory.used = number_in(group.folder + "/memory.current");
  memory.stall = stall_in(group.folder + "/memory.pressure");
  memory.reclaimable =
      reclaimable(stat_of("inactive_file"), stat_of("active_file"), stat_of("slab_reclaimable"));
  return memory;
}

/// Returns total = 0 for a group without a limit below `most`, which bounds nothing.
MemoryPool pool_of(const ControlGroup& group, const std::string& boot, std::int64_t most) {
  MemoryPool pool;
  struct stat st {};
  if (stat(group.folder.c_str(), &st) != 0) return pool;
  const GroupMemory memory = memory_of(group);
  pool.stall = memory.stall;
  if (memory.limit >= most) return pool;
  const std::int64_t back = std::min(memory.reclaimable, memory.used);
  pool.key = boot + ":" + std::to_string(st.st_ino) + (group.v2 ? "" : "v1");
  pool.total = memory.limit;
  pool.available = std::clamp<std::int64_t>(memory.limit - memory.used + back, 0, memory.limit);
  return pool;
}

}  // namespace

std::string host_key(const std::string& root) {
  std::ifstream file(root + "/proc/sys/kernel/random/boot_id");
  std::string id;
  if (file >> id) return id;
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "host";
}

std::vector<MemoryPool> host_memory_pools(const std::string& root) {
  const auto info = numbers_in(root + "/proc/meminfo");
  const auto kib = [&](const char* key) {
    const auto it = info.find(key);
    return it == info.end() ? std::int64_t{-1} : it->second * 1024;
  };
  if (kib("MemTotal:") <= 0) return {};
  MemoryPool machine;
  machine.key = host_key(root);
  machine.total = kib("MemTotal:");
  machine.available = kib("MemAvailable:");
  machine.stall = stall_in(root + "/proc/pressure/memory");
  std::vector<MemoryPool> pools = {machine};
  for (const ControlGroup& group : control_groups("memory", root)) {
    MemoryPool pool = pool_of(group, machine.key, machine.total);
    const bool duplicate = std::any_of(pools.begin(), pools.end(),
                                       [&](const MemoryPool& p) { return p.key == pool.key; });
    if (pool.total > 0 && !duplicate) pools.push_back(std::move(pool));
  }
  return pools;
}

std::int64_t available_memory(const std::vector<MemoryPool>& pools) {
  std::int64_t least = -1;
  for (const MemoryPool& pool : pools) {
    if (pool.part || pool.available < 0) continue;
    least = least < 0 ? pool.available : std::min(least, pool.available);
  }
  return least;
}

}  // namespace holdfast
