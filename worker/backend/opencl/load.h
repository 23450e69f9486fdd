#pragma once
// Loading through a given table of functions; production code calls opencl::load().

#include "worker/backend/api/opencl.h"
#include "worker/backend/opencl/device/api.h"

namespace holdfast::opencl {

/// As opencl::load, through `api`.
Result<std::unique_ptr<backend::Executor>> load_with(const Api& api, std::string_view device,
                                                     const model::Program& program,
                                                     const backend::LoadOptions& options);

}  // namespace holdfast::opencl
