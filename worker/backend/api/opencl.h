#pragma once
// Entry of the OpenCL backend. Where the build has no OpenCL headers, no_opencl/ answers.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "worker/backend/api/load.h"

namespace holdfast::opencl {

/// One memory of a device, or of several that a load is divided over.
struct FoundMemory {
  std::string key;  // unique among the memories of this machine
  std::uint64_t bytes = 0;
  bool of_host = false;  // it is the host's memory
};

/// A device's own description and the results of trying it. docs/inside/gpu.md explains the tiers.
struct Found {
  std::string device;  // "opencl:0"
  std::string name;
  std::string driver;
  bool gpu = false;                   // else a processor, or something else
  std::uint64_t memory_bytes = 0;     // for loads; HOLDFAST_OPENCL_MEMORY lowers it
  std::vector<FoundMemory> memories;  // that memory_bytes are divided over
  std::uint64_t max_alloc_bytes = 0;
  std::string tier;      // best tier of the device: "t0" to "t3"
  std::string why;       // features that it has and lacks
  double copy_gb_s = 0;  // read and written bytes of a copy on the device; 0 = not measured
  std::string unusable;  // the reason why nothing can be loaded on it; empty: it can
};

/// Every OpenCL device of this machine in the order of their numbers. `measure` also times a copy
/// (some tenths of a second a device). kUnsupported: OpenCL is not built in, no loader, or no
/// device; the error says which.
Result<std::vector<Found>> find_devices(bool measure);

/// The device that a name stands for. Several devices give one sum: memory together (with "+cpu"
/// this machine's too), names one after the other. `cache`: the folder of cached programs, or
/// empty. kUnsupported: a device is not there or cannot be used.
Result<Found> find_device(std::string_view device, const std::string& cache);

/// Returns the kernels revision in this backend's numerics classes; empty: OpenCL is not built in.
std::string kernels_revision();

/// Returns the version of this machine's CLBlast, as "1.5.3". kUnsupported: OpenCL or CLBlast is
/// not built in, or the library is not there; the error says what to install.
Result<std::string> clblast_version();

/// Packs the weights, builds the kernels or takes them from options.cache_dir, takes all memory.
/// Errors: kUnsupported (no such device, or a weight type or shape without kernels), kFileInvalid
/// (NaN or infinity in a tensor), kMemoryExhausted (needed and free bytes), kModelFailed (the
/// device refused something else), kUsage (more devices than the model can be divided over).
/// `device`: "opencl" (the first one), "opencl:N", "opencl:N+M" for layers over several,
/// "opencl:N,M" for the rows of every matrix over several, "opencl:N+cpu" or "opencl:N+M+cpu" for
/// as many of the first layers as fit on devices and the others on the processor.
Result<std::unique_ptr<backend::Executor>> load(std::string_view device,
                                                const model::Program& program,
                                                const backend::LoadOptions& options);

}  // namespace holdfast::opencl
