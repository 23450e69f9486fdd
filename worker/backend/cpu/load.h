#pragma once
// Entry of the cpu backend; backend::load() is what callers use.

#include <memory>

#include "worker/backend/api/load.h"

namespace holdfast::cpu {

/// Loads a program on the processor: packs its weights, takes KV pages and scratch. Errors: as
/// backend::load().
Result<std::unique_ptr<backend::Executor>> load(const model::Program& program,
                                                const backend::LoadOptions& options);

/// True if an operation's products take int8 rows, where its weights are quantised and the family
/// has that format: the large products, except in the first layers, whose errors all others pass on
/// (docs/inside/kernels.md).
bool takes_int8(model::OpKind kind, std::int32_t layer);

}  // namespace holdfast::cpu
