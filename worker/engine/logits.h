#pragma once
// Logits through the serving engine's own steps, row by row (compute_logits without the copies).

#include <functional>

#include "worker/engine/engine.h"

namespace holdfast::engine {

/// Calls sink(i, row [vocab]) for each positions[i] in ascending order; positions may come in any
/// order and repeat. The engine must be idle and a model engine (kUnsupported otherwise);
/// `options.neighbours` other sequences come and go meanwhile, drawn from a fixed seed. Errors as
/// add(), kInvalidRequest for a chunk above the engine's, and kRateLimited if slots < neighbours +
/// 1.
Result<void> visit_logits(Engine& engine, const std::vector<TokenId>& tokens,
                          const std::vector<std::int64_t>& positions, const LogitsOptions& options,
                          const std::function<void(std::size_t, const float*)>& sink);

/// Returns log sum e^row by the sampler's own arithmetic. The engine must be a model engine
/// (CHECKed).
double row_log_sum_exp(Engine& engine, const float* row);

}  // namespace holdfast::engine
