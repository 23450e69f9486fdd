#pragma once
// Entry of the cpu backend; backend::load() is what callers use.

#include <memory>

#include "worker/backend/backend.h"

namespace holdfast::cpu {

Result<std::unique_ptr<backend::Executor>> load(const model::Program& program,
                                                const backend::LoadOptions& options);

/// Whether an operation's products have rows of 8 bits, where its weights are quantised and the
/// family has such a form: the large ones, but for those of the first layers, whose errors all
/// others pass on (docs/kernels.md).
bool is_coarse(model::OpKind kind, std::int32_t layer);

}  // namespace holdfast::cpu
