#pragma once
// Loading on a device of a given table of functions; opencl::load() is what callers use.

#include "worker/backend/opencl.h"
#include "worker/backend/opencl/api.h"

namespace holdfast::opencl {

/// As opencl::load.
Result<std::unique_ptr<backend::Executor>> load_with(const Api& api, std::string_view device,
                                                     const model::Program& program,
                                                     const backend::LoadOptions& options);

}  // namespace holdfast::opencl
