// The description of devices for doctor and workers.

#include <unistd.h>

#include <algorithm>

#include "worker/backend/api/opencl.h"
#include "worker/backend/opencl/device/probe.h"

namespace holdfast::opencl {

namespace {

Found describe(const Device& d, bool measure, const std::string& cache) {
  Found found;
  found.device = "opencl:" + std::to_string(d.number);
  found.name = d.name;
  found.driver = d.driver;
  found.gpu = d.gpu;
  found.memory_bytes = d.memory;
  found.memories = {{d.memory_key, d.memory, d.shares_host_memory}};
  found.max_alloc_bytes = d.max_alloc;
  found.unusable = d.unusable;
  if (!d.unusable.empty()) return found;
  const auto probed = probe(d, cache);
  if (!probed) {
    found.unusable = probed.error().what;
    return found;
  }
  found.tier = kTiers[probed->tier];
  found.why = probed->why;
  if (measure) found.copy_gb_s = copy_rate(d);
  return found;
}

}  // namespace

Result<std::vector<Found>> find_devices(bool measure) {
  HOLDFAST_TRY(const Api* api, system_api());
  HOLDFAST_TRY(const std::vector<Device> devices, list_devices(*api));
  std::vector<Found> all;
  for (const Device& d : devices) all.push_back(describe(d, measure, ""));
  return all;
}

Result<Found> find_device(std::string_view device, const std::string& cache) {
  HOLDFAST_TRY(const Api* api, system_api());
  HOLDFAST_TRY(const std::vector<Device> devices, select_devices(*api, device));
  const DeviceName name = *parse_device_name(device);
  Found all;
  for (const Device& d : devices) {
    const Found one = describe(d, false, cache);
    if (!one.unusable.empty()) return Error{Errc::kUnsupported, one.unusable};
    if (all.device.empty()) {
      all = one;
      all.device = name.text();
      continue;
    }
    all.name += " + " + one.name;
    all.memory_bytes += one.memory_bytes;
    const bool again = std::any_of(all.memories.begin(), all.memories.end(),
                                   [&](const auto& m) { return m.key == one.memories[0].key; });
    if (!again) all.memories.push_back(one.memories[0]);
  }
  if (name.and_cpu) {
    all.name += " + processor";
    const std::uint64_t bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
    all.memory_bytes += bytes;
    all.memories.push_back({"cpu", bytes, true});
  }
  return all;
}

}  // namespace holdfast::opencl
