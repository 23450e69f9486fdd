#pragma once
// Entry of the cpu backend; backend::load() is what callers use.

#include <memory>

#include "worker/backend/backend.h"

namespace holdfast::cpu {

Result<std::unique_ptr<backend::Executor>> load(const model::Program& program,
                                                const backend::LoadOptions& options);

}  // namespace holdfast::cpu
