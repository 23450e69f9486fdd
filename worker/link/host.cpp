#include "worker/link/host.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "shared/base/bytes.h"
#include "shared/base/clock.h"
#include "shared/base/host_memory.h"
#include "shared/huggingface/stamp.h"
#include "shared/weight_cache/idle.h"

namespace holdfast::worker {
namespace {

constexpr std::size_t kShaHex = 64;

}  // namespace

wire::MemoryReport host_memory(const std::string& weight_cache_path) {
  wire::MemoryReport report;
  report.at_us = system_clock().monotonic_us();
  report.pools = host_memory_pools();
  const std::int64_t idle = weight_cache::idle_bytes(weight_cache_path);
  for (MemoryPool& pool : report.pools) {
    if (pool.available >= 0) pool.available = std::min(pool.available + idle, pool.total);
  }
  // Memory for which the kernel would kill this process is not memory that a load may have.
  for (const MemoryPool& pool : report.pools) {
    report.total = report.total == 0 ? pool.total : std::min(report.total, pool.total);
  }
  report.free = std::max<std::int64_t>(available_memory(report.pools), 0);
  std::ifstream statm("/proc/self/statm");
  std::int64_t pages = 0;
  std::int64_t resident = 0;
  if (statm >> pages >> resident) report.rss = resident * sysconf(_SC_PAGESIZE);
  return report;
}

std::int64_t process_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string word; rollup >> word;) {
    std::int64_t kib = 0;
    if (word == "Rss:" && rollup >> kib) return kib * 1024;
  }
  return 0;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

std::vector<MemoryPool> device_pools(const std::vector<DeviceMemoryOf>& memories,
                                     const std::vector<MemoryPool>& host) {
  std::vector<MemoryPool> pools;
  const bool divided = memories.size() > 1;
  MemoryPool all;
  all.key = host_key() + "/";
  for (const DeviceMemoryOf& memory : memories) {
    all.total += memory.bytes;
    all.key += (all.key.back() == '/' ? "" : "+") + memory.name;
    if (memory.of_host) {
      for (MemoryPool pool : host) {
        // HOLDFAST_OPENCL_MEMORY and a driver's limit apply to this device alone.
        pool.part = divided;
        pools.push_back(std::move(pool));
      }
    } else {
      MemoryPool device_pool;
      device_pool.key = host_key() + "/" + memory.name;
      device_pool.total = memory.bytes;
      device_pool.part = divided;
      pools.push_back(std::move(device_pool));
    }
  }
  // The device has a bound of its own even where the machine's memory is larger.
  const bool lent = memories.size() == 1 && memories[0].of_host;
  if (divided || lent) pools.push_back(std::move(all));
  return pools;
}

std::string random_incarnation() {
  std::byte bytes[16];
  CHECK(getrandom(bytes, sizeof(bytes), 0) == static_cast<ssize_t>(sizeof(bytes)));
  return to_hex(bytes);
}

/// Compares size and time of the file with those that were registered.
static Result<void> check_stamp(const wire::Load& load, const huggingface::Stamp& stamp) {
  const std::string what = "load " + load.path + ": ";
  if (load.size != 0 && stamp.size != load.size) {
    return Error{Errc::kFileInvalid, what + "has " + std::to_string(stamp.size) +
                                         " bytes, registered were " + std::to_string(load.size) +
                                         "; add the model again"};
  }
  if (load.mtime_ns != 0 && stamp.mtime_ns != load.mtime_ns) {
    return Error{Errc::kFileInvalid,
                 what + "was changed since it was registered; add the model again"};
  }
  return {};
}

Result<huggingface::Stamp> check_model_file(const wire::Load& load) {
  if (load.path.empty()) return huggingface::Stamp{};
  const std::string what = "load " + load.path + ": ";
  const auto stamp = huggingface::stamp_of(load.path);
  if (!stamp) return Error{stamp.error().code, "load " + stamp.error().what};
  if (access(load.path.c_str(), R_OK) != 0) return Error{Errc::kIo, what + std::strerror(errno)};
  HOLDFAST_CHECKED(check_stamp(load, *stamp));
  if (load.size == 0 || load.model_sha.size() != kShaHex) return *stamp;  // not a registered file
  if (!load.identity.empty() && stamp->identity == load.identity) return *stamp;
  // Moved, copied, or touched since: only its content decides.
  HOLDFAST_TRY(const std::string sha, huggingface::sha256_of(load.path));
  if (sha == load.model_sha) return *stamp;
  return Error{Errc::kFileInvalid,
               what + "has other content than when it was registered (SHA-256 " + sha +
                   ", registered was " + load.model_sha + "); add the model again"};
}

Result<void> check_unchanged(const wire::Load& load, const huggingface::Stamp& before) {
  if (load.path.empty()) return {};
  const auto now = huggingface::stamp_of(load.path);
  if (now && *now == before) return {};
  return Error{Errc::kFileInvalid,
               "load " + load.path + ": was changed while it was read; add the model again"};
}

}  // namespace holdfast::worker
