#pragma once
// Programs of one device: built from source once, or read from the cache on disk; shared by all
// loads on the device.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "worker/backend/opencl/device/devices.h"

namespace holdfast::opencl {

/// Programs that were built, and those that came from the cache.
struct BuildCounts {
  std::uint64_t from_source = 0;
  std::uint64_t from_cache = 0;
};

/// The programs of one device in one context. Thread-safe.
class Programs {
 public:
  Programs(const Device& device, cl_context context) : device_(device), context_(context) {}

  /// The built program of this source; it lives as long as this object. `what` names it in errors;
  /// `cache` is the folder of the program cache, or empty. kModelFailed with the compiler's first
  /// lines.
  Result<cl_program> get(const std::string& what, const std::string& source,
                         const std::string& cache);
  /// A kernel of the program by name. kModelFailed: the driver refuses.
  Result<KernelHandle> kernel(cl_program program, const char* name) const;
  /// Writes what was built from source to the cache folders that get() was called with. Call it
  /// after the kernels have run once: some drivers finish compiling only then, and put that into
  /// the binary.
  void save();
  BuildCounts counts() const;

 private:
  struct Entry {
    ProgramHandle program;
    std::string unsaved_in;  // folder; empty = nothing to write
  };
  Result<ProgramHandle> from_source(const std::string& what, const std::string& source) const;
  ProgramHandle from_binary(const std::string& binary) const;
  std::string build_options() const;
  std::string build_log(cl_program program) const;
  std::string binary_of(cl_program program) const;

  const Device device_;
  const cl_context context_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // by cache key
  BuildCounts counts_;
};

}  // namespace holdfast::opencl
