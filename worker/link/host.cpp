#include "worker/link/host.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "shared/base/bytes.h"
#include "shared/base/cgroup.h"
#include "shared/hf/stamp.h"

namespace holdfast::worker {

wire::MemoryReport host_memory() {
  wire::MemoryReport report;
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::string unit;
  for (std::int64_t kib = 0; meminfo >> key >> kib; std::getline(meminfo, unit)) {
    if (key == "MemTotal:") report.total = kib * 1024;
    if (key == "MemAvailable:") report.free = kib * 1024;
  }
  // What the kernel would kill us for is not memory that a load may have.
  const GroupMemory group = group_memory();
  if (group.limit > 0 && group.limit < report.total) {
    report.total = group.limit;
    report.free = std::min(report.free, std::max<std::int64_t>(group.limit - group.used, 0));
  }
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

std::string random_incarnation() {
  std::byte bytes[16];
  CHECK(getrandom(bytes, sizeof(bytes), 0) == static_cast<ssize_t>(sizeof(bytes)));
  return to_hex(bytes);
}

Result<void> check_model_file(const wire::Load& load) {
  if (load.path.empty()) return {};
  const std::string what = "load " + load.path + ": ";
  const auto stamp = hf::stamp_of(load.path);
  if (!stamp) return Error{stamp.error().code, "load " + stamp.error().what};
  if (access(load.path.c_str(), R_OK) != 0) return Error{Errc::kIo, what + std::strerror(errno)};
  if (load.size != 0 && stamp->size != load.size) {
    return Error{Errc::kFileInvalid, what + "has " + std::to_string(stamp->size) +
                                         " bytes, registered were " + std::to_string(load.size) +
                                         "; add the model again"};
  }
  if (load.mtime_ns != 0 && stamp->mtime_ns != load.mtime_ns) {
    return Error{Errc::kFileInvalid,
                 what + "was changed since it was registered; add the model again"};
  }
  return {};
}

}  // namespace holdfast::worker
