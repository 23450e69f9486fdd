#pragma once
// The worker's report on its machine, and the check of a model file before it is opened.

#include <string>
#include <vector>

#include "shared/huggingface/stamp.h"
#include "shared/wire/messages.h"

namespace holdfast::worker {

/// Fills at_us, pools, total, free (bytes that can be had without swapping) and rss; the rest stays
/// 0. From /proc. Unused entries of the weight cache count as free (`weight_cache_path`: its
/// server's socket).
wire::MemoryReport host_memory(const std::string& weight_cache_path = "");
/// Resident memory (RSS) of this process in bytes, pages that others map too included: what a load
/// adds to it is the load's, also where another worker has the same packed weights. 0: unknown.
std::int64_t process_bytes();
std::string host_name();

/// One memory of a device: its own, or the machine's where the device is the processor.
struct DeviceMemoryOf {
  std::string name;  // unique among the memories of this machine
  std::int64_t bytes = 0;
  bool of_host = false;
};
/// The pools that loads on such a device take from. A load that is divided over several memories
/// takes no known part of each: one more pool then stands for all of them. So does one for a device
/// that uses the host's memory with a bound of its own.
std::vector<MemoryPool> device_pools(const std::vector<DeviceMemoryOf>& memories,
                                     const std::vector<MemoryPool>& host);
/// 16 random bytes in hexadecimal: names this process among all others.
std::string random_incarnation();

/// Checks the file of a load, and returns the stamp that it must still have after it was read. kIo:
/// missing or unreadable; kFileInvalid: empty, no regular file, or not the file that was registered
/// (size, time of change; where its identity differs, its SHA-256). A load without a path passes
/// (fake engine).
Result<huggingface::Stamp> check_model_file(const wire::Load& load);
/// kFileInvalid if the file's stamp is not `before`: what was read may be neither the old content
/// nor the new one.
Result<void> check_unchanged(const wire::Load& load, const huggingface::Stamp& before);

}  // namespace holdfast::worker
