#pragma once
// What a device can do beyond OpenCL C 1.2, found out by asking and by trying, never by name.

#include <string>

#include "worker/backend/opencl/programs.h"
#include "worker/backend/opencl/sources.h"

namespace holdfast::opencl {

/// Tiers of kernels: t0 OpenCL C 1.2; t1 items look at each other's numbers; t2 dot products of
/// bytes; t3 matrix units. A tier does what those below it are about as the device can. The bits of
/// t0 and t1 are the same, and those of t2 and t3.
inline constexpr const char* kTiers[] = {"t0", "t1", "t2", "t3"};

struct Probe {
  bool half = false;                     // arithmetic; storage as half everybody has
  int tier = 0;                          // of kTiers
  int shuffle = 0, dot = 0, matrix = 0;  // as KernelWays
  std::string why;  // what was found, what is missing, and how it was looked for
};

/// Compiles and runs tiny kernels where only that can tell. The error of a device that refuses a
/// context.
/// `cache`: the folder of kept programs, or empty.
Result<Probe> probe(const Device& device, const std::string& cache);
/// The same in a context of the device's that is open; to be kept, its programs want save().
Probe probe_in(const Device& device, cl_context context, Programs& programs,
               const std::string& cache);

/// Whether a trial gives what it should, done in these ways.
bool passes(const Device& device, Trial trial, const KernelWays& ways);

/// How the kernels of a tier do it on a device of which `found` is known: by ordinary operations
/// where the device cannot do what the tier is about.
KernelWays ways_of(const Device& device, const Probe& found, int tier);

/// Read plus written bytes a second of the device's own copy, in 10^9; 0 if it cannot be timed.
double copy_rate(const Device& device);

}  // namespace holdfast::opencl
