#pragma once
// Finds out, by asking and by trials and never by name, what a device can do beyond OpenCL C 1.2.

#include <string>

#include "worker/backend/opencl/device/programs.h"
#include "worker/backend/opencl/device/sources.h"

namespace holdfast::opencl {

/// Tiers of kernels: t0 OpenCL C 1.2; t1 items exchange numbers within a sub-group; t2 dot products
/// of bytes; t3 matrix units. A kernel of a tier uses what the lower tiers are about as far as the
/// device can. The bits of t0 and t1 are the same, and those of t2 and t3.
inline constexpr const char* kTiers[] = {"t0", "t1", "t2", "t3"};

/// The result of probing a device.
struct Probe {
  bool half = false;                     // half arithmetic; every device has storage as half
  int tier = 0;                          // index in kTiers
  int shuffle = 0, dot = 0, matrix = 0;  // as KernelCapabilities
  std::string why;                       // what was found, what is missing, and how it was tried
};

/// Compiles and runs tiny kernels where only that can tell. Fails where the device refuses a
/// context. `cache`: the folder of the program cache, or empty.
Result<Probe> probe(const Device& device, const std::string& cache);
/// The same in an open context of the device; the caller calls programs.save() to cache the
/// programs.
Probe probe_in(const Device& device, cl_context context, Programs& programs,
               const std::string& cache);

/// Runs a trial with these capabilities and says if its result is right.
bool passes(const Device& device, Trial trial, const KernelCapabilities& capabilities);

/// The capabilities that kernels of a tier use on a device whose probe is `found`: ordinary
/// operations where the device lacks what the tier is about.
KernelCapabilities capabilities_of(const Device& device, const Probe& found, int tier);

/// Read plus written bytes per second of a copy on the device, in 10^9; 0 if it cannot be timed.
double copy_rate(const Device& device);

}  // namespace holdfast::opencl
