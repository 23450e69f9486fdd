#pragma once
// The device's functions with somebody in between: counts what is made and released, lets the n-th
// creation fail, and makes the device look smaller than it is.

#include <cstdint>
#include <set>
#include <string>

#include "worker/backend/opencl/api.h"

namespace holdfast::gpu {

struct Watch {
  std::int64_t live = 0;              // contexts, queues, buffers, programs, kernels and events
  std::int64_t creations = 0;         // calls that could have failed for want of memory
  std::int64_t fail_at = 0;           // the creation of this number fails; 0 = none
  std::int64_t fail_every = 0;        // each whose number is a multiple of it fails; 0 = none
  std::int64_t builds = 0;            // of programs from source
  std::int64_t launches = 0;          // of kernels
  std::set<cl_kernel> kernels;        // that were launched
  std::int64_t copies = 0;            // of rows from buffer to buffer
  cl_int fail_launches = CL_SUCCESS;  // what every launch of a kernel returns
  bool lose_copies = false;           // between buffers: they succeed, and nothing arrives
  bool late_writes = false;     // one that nobody waits for reads its memory when somebody waits
  std::int64_t late = 0;        // such writes
  std::int64_t pinned = 0;      // pieces of host memory that the driver gave
  std::uint64_t max_alloc = 0;  // 0 = the device's own
  std::uint64_t memory = 0;
  cl_device_type type = 0;
  cl_uint vector_width = 0;    // floats that it adds at once
  std::string extensions;      // instead of its own; empty = those
  bool ordinary_dots = false;  // programs that want dot products by an extension get ordinary ones
};

/// Of the only watched table. Not thread-safe.
Watch& watch();
/// The system's table, watched. The reference stays the same; CHECKs that there is OpenCL.
const opencl::Api& watched_api();

}  // namespace holdfast::gpu
