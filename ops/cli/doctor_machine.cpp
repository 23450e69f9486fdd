// Checks of the machine: limits of the process, memory, processor time. Everything comes from /proc
// and /sys, below --root if that is given.

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <vector>

#include "control/core/config.h"
#include "ops/cli/doctor.h"
#include "ops/serve/state_dir.h"
#include "ops/terminal/output.h"
#include "shared/base/cgroup.h"
#include "shared/base/host_memory.h"
#include "shared/base/json_text.h"
#include "shared/base/memory_nodes.h"
#include "shared/base/processors.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

// The gateway's bound of connections, and the files that it opens besides.
constexpr std::int64_t kConnections = 8192, kReservedFiles = 64;

/// "Key:   123 kB" of /proc/meminfo, in bytes; -1 if it is not there.
std::int64_t meminfo(const Patient& p, const std::string& key) {
  const std::string text = read_below(p, "/proc/meminfo");
  const std::size_t at = text.find(key + ":");
  if (at == std::string::npos) return -1;
  return std::strtoll(text.c_str() + at + key.size() + 1, nullptr, 10) * 1024;
}

std::optional<std::int64_t> number_in(const Patient& p, const std::string& path) {
  const std::string text = read_below(p, path);
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (end == text.c_str()) return std::nullopt;
  return value;
}

std::string gib(std::int64_t bytes) {
  return human_bytes(static_cast<double>(bytes));
}

/// Sums a field over a list in the daemon's status.
std::int64_t sum_of(const Patient& p, const char* list, const char* field) {
  const json status = try_parse_json<json>(p.status);
  std::int64_t sum = 0;
  if (!status.is_object()) return 0;
  for (const json& item : status.value(list, json::array())) {
    sum += item.value(field, std::int64_t{0});
  }
  return sum;
}

/// Shares of processor time since the start of the machine: all, and what others took of it.
struct CpuTicks {
  double total = 0, steal = 0;
};
CpuTicks cpu_ticks(const Patient& p) {
  std::istringstream line(read_below(p, "/proc/stat"));
  std::string name;
  line >> name;
  CpuTicks ticks;
  double value = 0;
  for (int i = 0; i < 8 && line >> value; ++i) {
    ticks.total += value;
    if (i == 7) ticks.steal = value;
  }
  return ticks;
}

}  // namespace

/// Checks the limit of open files: the gateway has a file for each connection. While none runs,
/// this shell's limit would be its limit.
void check_open_files(Patient& p) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  auto soft = static_cast<std::int64_t>(limit.rlim_cur);
  std::string whose = "of this shell";
  const json status = try_parse_json<json>(p.status);
  for (const json& child : status.is_object() ? status.value("supervised", json()) : json()) {
    if (child.value("role", "") != "gateway" || !child["pid"].is_number()) continue;
    const std::string path = "/proc/" + std::to_string(child.value("pid", 0)) + "/limits";
    const std::string limits = read_below(p, path);
    const std::size_t at = limits.find("Max open files");
    if (at == std::string::npos) continue;
    soft = std::strtoll(limits.c_str() + at + 14, nullptr, 10);
    whose = "of the gateway";
  }
  const std::string found = std::to_string(soft) + " " + whose;
  const std::int64_t needed = kConnections + kReservedFiles;
  if (soft >= needed) return p.ok("open files", found);
  p.warn("open files", found,
         std::to_string(needed) + " for the gateway's " + std::to_string(kConnections) +
             " connections",
         "ulimit -n 16384, or LimitNOFILE=16384 in the service");
}

void check_locked_memory(Patient& p) {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const bool all = limit.rlim_cur == RLIM_INFINITY;
  // Nothing of ours locks memory: it matters only to know what keeps weights from being swapped.
  p.ok("locked memory",
       (all ? std::string("unlimited") : gib(static_cast<std::int64_t>(limit.rlim_cur))) +
           "; weights are not locked, swap decides");
}

/// True if the daemon loads nothing into this memory, by the knobs' defaults.
static bool is_short(const MemoryPool& pool) {
  const core::Config standard;
  const std::int64_t least =
      std::max(pool.total / 100 * standard.memory_min_available_percent, std::int64_t{512} << 20);
  const bool stalls = pool.stall >= standard.memory_max_stall_percent * 100;
  return (pool.available >= 0 && pool.available < least) || stalls;
}

void check_memory(Patient& p) {
  const std::vector<MemoryPool> pools = host_memory_pools(p.root);
  if (pools.empty()) {
    p.warn("memory", "/proc/meminfo cannot be read", "MemTotal", "mount /proc");
    return;
  }
  std::int64_t limit = pools[0].total;
  std::int32_t stall = 0;
  for (const MemoryPool& pool : pools) {
    limit = std::min(limit, pool.total);
    stall = std::max(stall, pool.stall);
  }
  const bool limited = limit < pools[0].total;
  const std::int64_t reserved = sum_of(p, "devices", "reserved_bytes");
  const std::string found =
      gib(pools[0].total) + (limited ? ", limited to " + gib(limit) : "") + ", " +
      gib(std::max<std::int64_t>(available_memory(pools), 0)) + " available, " + gib(reserved) +
      " reserved by loads" +
      (stall > 0 ? ", everybody waited for memory " + std::to_string(stall / 100) + "." +
                       std::to_string(stall / 10 % 10) + " % of the last ten seconds"
                 : "");
  if (limited && reserved > limit) {
    p.fail("memory", found, "a limit above what is reserved",
           "raise MemoryMax (memory.max) of the service to " + gib(reserved + (1LL << 30)) +
               ", or unload models: the kernel will end workers");
  } else if (std::any_of(pools.begin(), pools.end(), is_short)) {
    p.warn("memory", found, "512 MiB and 5 % available, and nobody waiting for memory",
           "end other programs, or unload models: while memory is short nothing is loaded");
  } else {
    p.ok("memory", found);
  }
}

void check_swap(Patient& p) {
  const std::int64_t total = meminfo(p, "SwapTotal");
  const std::int64_t used = total - std::max<std::int64_t>(meminfo(p, "SwapFree"), 0);
  if (total <= 0) return p.ok("swap", "none");
  const std::int64_t swappiness = number_in(p, "/proc/sys/vm/swappiness").value_or(60);
  const std::string found =
      gib(used) + " of " + gib(total) + " used, swappiness " + std::to_string(swappiness);
  if (swappiness <= 1 && used < total / 10) return p.ok("swap", found);
  p.warn("swap", found, "none, or swappiness 1",
         "swapoff -a, or sysctl vm.swappiness=1: one swapped page of weights stops a step for "
         "milliseconds");
}

void check_huge_pages(Patient& p) {
  const std::string text = read_below(p, "/sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t open = text.find('[');
  const std::string mode =
      open == std::string::npos ? "" : text.substr(open + 1, text.find(']') - open - 1);
  if (mode == "always" || mode == "madvise") return p.ok("huge pages", mode);
  p.warn("huge pages", mode.empty() ? "the kernel has none" : mode, "madvise or always",
         "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: decoding reads weights "
         "faster with them");
}

void check_overcommit(Patient& p) {
  const std::int64_t mode = number_in(p, "/proc/sys/vm/overcommit_memory").value_or(0);
  if (mode != 2) return p.ok("overcommit", "mode " + std::to_string(mode));
  p.warn(
      "overcommit",
      "mode 2, " + gib(meminfo(p, "CommitLimit") - meminfo(p, "Committed_AS")) + " left", "mode 0",
      "sysctl vm.overcommit_memory=0: loads are refused by the kernel before the memory is full");
}

/// The processor time that a control group allows, for a finding; empty if it allows all.
std::string in_group(const Patient& p) {
  const double group = group_processors(p.root);
  if (group <= 0) return "";
  char text[64];
  std::snprintf(text, sizeof text, " (its control group gets the time of %.4g)", group);
  return text;
}

/// The processors of each memory node, for a finding; empty if there is one node.
std::string on_nodes(const Patient& p) {
  const auto nodes = memory_nodes(p.root + "/sys/devices/system/node");
  if (nodes.size() < 2) return "";
  std::string each;
  for (const MemoryNode& node : nodes) {
    each += (each.empty() ? "" : " + ") + std::to_string(node.cpus.size());
  }
  return " on " + std::to_string(nodes.size()) + " memory nodes (" + each + ")";
}

void check_cores(Patient& p) {
  const int cores = usable_processors(p.root);
  const std::int64_t threads = sum_of(p, "workers", "threads");
  const std::string found =
      std::to_string(cores) + " usable" + in_group(p) + on_nodes(p) +
      (threads > 0 ? ", " + std::to_string(threads) + " compute threads" : "");
  if (threads > cores) {
    p.warn("cores", found, "no more threads than cores",
           "serve with fewer --workers or --threads: they wait for each other");
  } else {
    p.ok("cores", found);
  }
  const CpuTicks before = cpu_ticks(p);
  const timespec pause{0, 200'000'000};
  nanosleep(&pause, nullptr);
  const CpuTicks after = cpu_ticks(p);
  // Counters below --root may stand still: the shares since the machine's start count then.
  const bool moves = after.total > before.total;
  const double total = moves ? after.total - before.total : after.total;
  const double steal = moves ? after.steal - before.steal : after.steal;
  const double percent = total > 0 ? 100 * steal / total : 0;
  char text[48];
  std::snprintf(text, sizeof text, "%.1f %% of the time", percent);
  if (percent <= 5) return p.ok("stolen processor time", text);
  p.warn("stolen processor time", text, "less than 5 %",
         "the host of this virtual machine is oversubscribed: ask for dedicated processors");
}

}  // namespace holdfast::cli
