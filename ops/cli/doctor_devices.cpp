// Checks of devices other than the processor: which exist, what they can do, why there are no more.

#include <cstdio>
#include <string>
#include <vector>

#include "ops/cli/doctor.h"
#include "ops/terminal/output.h"
#include "worker/backend/api/opencl.h"

namespace holdfast::cli {
namespace {

/// Warns of a GPU that OpenCL does not know: images with NVIDIA's driver often have its OpenCL
/// library and nothing that registers it.
void check_registered(Patient& p, const std::vector<opencl::Found>& found) {
  if (read_below(p, "/proc/driver/nvidia/version").empty()) return;
  for (const opencl::Found& f : found) {
    if (f.name.find("NVIDIA") != std::string::npos) return;
  }
  p.warn("NVIDIA GPU", "the kernel has its driver, and OpenCL does not know the GPU",
         "a device of that name",
         "register the driver's library, `echo libnvidia-opencl.so.1 > "
         "/etc/OpenCL/vendors/nvidia.icd`, and install the loader (ocl-icd-libopencl1)");
}

/// Says whether there is CLBlast, which is optional.
void check_clblast(Patient& p) {
  const auto version = opencl::clblast_version();
  if (!version) return p.ok("CLBlast", "none; " + version.error().what);
  p.ok("CLBlast", *version);
}

}  // namespace

void check_devices(Patient& p) {
  const auto found = opencl::find_devices(true);
  check_registered(p, found ? *found : std::vector<opencl::Found>());
  if (!found) return p.ok("devices", "the processor alone; " + found.error().what);
  check_clblast(p);
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
