// What doctor and workers say about the devices.

#include "worker/backend/opencl.h"
#include "worker/backend/opencl/probe.h"

namespace holdfast::opencl {

Result<std::vector<Found>> find_devices(bool measure) {
  HF_TRY(const Api* api, system_api());
  HF_TRY(const std::vector<Device> devices, list_devices(*api));
  std::vector<Found> all;
  for (const Device& d : devices) {
    Found found;
    found.device = "opencl:" + std::to_string(d.number);
    found.name = d.name;
    found.driver = d.driver;
    found.gpu = d.gpu;
    found.memory_bytes = d.memory;
    found.max_alloc_bytes = d.max_alloc;
    found.unusable = d.unusable;
    if (d.unusable.empty()) {
      const auto probed = probe(d);
      if (probed.has_value()) {
        found.tier = kTiers[probed->tier];
        found.used_tier = kTiers[std::min(probed->tier, kTierUsed)];
        found.why = probed->why;
        if (measure) found.copy_gb_s = copy_rate(d);
      } else {
        found.unusable = probed.error().what;
      }
    }
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace holdfast::opencl
