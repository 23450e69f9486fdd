#pragma once
// What the worker says about its machine, and the check of a model file before it is opened.

#include <string>
#include <vector>

#include "shared/hf/stamp.h"
#include "shared/wire/messages.h"

namespace holdfast::worker {

/// total, free (what can be had without swapping) and rss; the rest stays 0. From /proc.
/// Packed weights of nobody (`images_path`: their keeper's socket) count as free.
wire::MemoryReport host_memory(const std::string& images_path = "");
/// Resident memory (RSS), pages that others map too included: what a load adds to it is the load's,
/// also where another worker has the same packed weights. 0: unknown.
std::int64_t process_bytes();
std::string host_name();

/// One memory of a device: its own, or the machine's where the device is the processor.
struct DeviceMemoryOf {
  std::string name;  // that tells it from the others of this machine
  std::int64_t bytes = 0;
  bool of_host = false;
};
/// The pools that loads on such a device take from. A load that is divided over several takes no
/// known part of each: then there is one pool more, for all of them.
std::vector<MemoryPool> device_pools(const std::vector<DeviceMemoryOf>& memories,
                                     const std::vector<MemoryPool>& host);
/// 16 random bytes in hexadecimal: names this process among all others.
std::string random_incarnation();

/// kIo: missing or unreadable; kFileInvalid: empty, no regular file, or not the file that was
/// registered (size, time of change; where it is another file than it was, or one that was touched
/// since, its SHA-256). A load without a path passes (fake engine). Gives what the file must still
/// be when it has been read.
Result<hf::Stamp> check_model_file(const wire::Load& load);
/// kFileInvalid if it is not: what was read may be neither the old content nor the new one.
Result<void> check_unchanged(const wire::Load& load, const hf::Stamp& before);

}  // namespace holdfast::worker
