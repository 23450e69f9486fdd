#pragma once
// What the worker says about its machine, and the check of a model file before it is opened.

#include "shared/wire/messages.h"

namespace holdfast::worker {

/// total, free (what can be had without swapping) and rss; the rest stays 0. From /proc.
wire::MemoryReport host_memory();
/// Resident memory (RSS), pages that others map too included: what a load adds to it is the load's,
/// also where another worker has the same packed weights. 0: unknown.
std::int64_t process_bytes();
std::string host_name();
/// 16 random bytes in hexadecimal: names this process among all others.
std::string random_incarnation();

/// kIo: missing or unreadable; kFileInvalid: empty, no regular file, or not the file that was
/// registered (size, time of change). A load without a path passes (fake engine).
Result<void> check_model_file(const wire::Load& load);

}  // namespace holdfast::worker
