#pragma once
// Computes what draft tokens (worker/engine/draft.h) would be worth for a given text: the engine's
// own drafts, step by step, as if a model wrote that text, with the costs of steps. No model runs.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "shared/grammar/token_masks.h"
#include "shared/plan/plan.h"

namespace holdfast::bench {

constexpr std::size_t kDraftTokensMax = plan::kDraftRows;  // of one step
/// The cost of a step with n draft tokens, as a multiple of a step without.
using StepCosts = std::array<double, kDraftTokensMax + 1>;

/// A text to replay.
struct ReplayText {
  std::vector<std::int32_t> before;            // the prompt
  std::vector<std::int32_t> tokens;            // the answer, at least two
  std::shared_ptr<grammar::TokenMasks> masks;  // of its grammar; may be null
};

/// Counts of a replay.
struct Replayed {
  std::int64_t tokens = 0;  // made by steps: all but the first
  std::int64_t steps = 0;
  std::int64_t drafted = 0;
  std::int64_t accepted = 0;
  double cost = 0;  // in steps without draft tokens
  /// Speed as a multiple of that without draft tokens.
  double gain() const { return cost > 0 ? static_cast<double>(tokens) / cost : 1; }
};

/// Replays a text. kFileInvalid: it does not follow its grammar.
Result<Replayed> replay(const ReplayText& text, const StepCosts& costs);

}  // namespace holdfast::bench
