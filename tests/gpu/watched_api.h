#pragma once
// The device's functions, watched: counts objects that are created and released, lets the n-th
// creation fail, and makes the device look smaller than it is.

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "worker/backend/opencl/device/api.h"

namespace holdfast::gpu {

/// Counts of the watched functions, and switches for faults and for properties of the device.
struct Watch {
  std::int64_t live = 0;        // contexts, queues, buffers, programs, kernels and events
  std::int64_t creations = 0;   // calls that can fail for lack of memory
  std::int64_t fail_at = 0;     // the creation of this number fails; 0 = none
  std::int64_t fail_every = 0;  // each creation whose number is a multiple fails; 0 = none
  std::int64_t builds = 0;      // programs built from source
  std::int64_t launches = 0;    // launches of kernels
  std::set<std::pair<cl_program, std::string>> kernels;  // kernels that were launched
  std::int64_t arguments = 0;                            // arguments of kernels that were set
  std::int64_t fail_argument_at = 0;      // setting the argument of this number fails; 0 = none
  bool refuse_copies_of_kernels = false;  // a second object of a kernel's function is refused
  std::int64_t writes = 0;                // writes of buffers
  std::int64_t blocking = 0;              // writes and reads of buffers that wait for their end
  std::int64_t finishes = 0;              // waits for all that a queue has
  std::int64_t waits = 0;                 // waits for events
  std::int64_t copies = 0;                // copies of rows from buffer to buffer
  cl_int fail_launches = CL_SUCCESS;      // what every launch of a kernel returns
  bool lose_copies = false;               // copies between buffers succeed, and nothing arrives
  bool late_writes = false;     // writes that nobody waits for read their memory at the next wait
  std::int64_t late = 0;        // such writes
  std::int64_t pinned = 0;      // buffers of host memory that the driver gave
  std::uint64_t max_alloc = 0;  // 0 = the device's own
  std::uint64_t memory = 0;
  cl_device_type type = 0;
  cl_uint vector_width = 0;    // floats that an item adds at once
  std::string extensions;      // in place of the device's own; empty = its own
  bool ordinary_dots = false;  // programs that use dot products by an extension get ordinary ones
};

/// The counts and switches of the only watched table. Not thread-safe.
Watch& watch();
/// The system's table, watched. The reference stays the same; CHECKs that OpenCL is available.
const opencl::Api& watched_api();

}  // namespace holdfast::gpu
