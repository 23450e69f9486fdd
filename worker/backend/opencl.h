#pragma once
// Entry of the OpenCL backend. Without it in the build, opencl_absent.cpp answers.

#include <memory>
#include <string_view>

#include "worker/backend/backend.h"

namespace holdfast::opencl {

Result<std::unique_ptr<backend::Executor>> load(std::string_view device,
                                                const model::Program& program,
                                                const backend::LoadOptions& options);

}  // namespace holdfast::opencl
