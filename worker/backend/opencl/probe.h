#pragma once
// What a device can do beyond OpenCL C 1.2, found out by asking and by compiling, never by name.

#include <string>

#include "worker/backend/opencl/devices.h"

namespace holdfast::opencl {

/// Tiers of kernels: t0 OpenCL C 1.2; t1 sums over sub-groups; t2 dot products of bytes; t3 matrix
/// units. A tier wants those below it.
inline constexpr const char* kTiers[] = {"t0", "t1", "t2", "t3"};
/// The best that kernels are written for.
inline constexpr int kTierUsed = 0;

struct Probe {
  bool half = false;  // arithmetic; storage as half everybody has
  int tier = 0;       // of kTiers
  std::string why;    // what was found, what is missing, and how it was looked for
};

/// Compiles tiny kernels where only that can tell. The error of a device that refuses a context.
Result<Probe> probe(const Device& device);

/// Read plus written bytes a second of the device's own copy, in 10^9; 0 if it cannot be timed.
double copy_rate(const Device& device);

}  // namespace holdfast::opencl
