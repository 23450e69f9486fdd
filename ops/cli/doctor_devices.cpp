// Devices beside the processor: which there are, what they can, and why no more.

#include <cstdio>

#include "ops/cli/doctor.h"
#include "ops/cli/output.h"
#include "worker/backend/opencl.h"

namespace holdfast::cli {

void check_devices(Patient& p) {
  const auto found = opencl::find_devices(true);
  if (!found) return p.ok("devices", "the processor alone; " + found.error().what);
  for (const opencl::Found& f : *found) {
    const std::string about = f.name + (f.gpu ? "" : ", no GPU") + ", driver " + f.driver;
    if (!f.unusable.empty()) {
      p.warn("device " + f.device, about + ": " + f.unusable, "a device that can be used",
             "update its driver, or leave it: other devices and the processor are not touched");
      continue;
    }
    char rate[64] = "";
    if (f.copy_gb_s > 0) std::snprintf(rate, sizeof rate, ", copies %.1f GB/s", f.copy_gb_s);
    p.ok("device " + f.device, about + ", " + human_bytes(static_cast<double>(f.memory_bytes)) +
                                   " (one buffer " +
                                   human_bytes(static_cast<double>(f.max_alloc_bytes)) + ")" +
                                   rate + ", tier " + f.tier + "; " + f.why);
  }
}

}  // namespace holdfast::cli
