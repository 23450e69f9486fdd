#pragma once
// What guessing the next tokens (worker/engine/draft.h) would have been worth for a text that is
// known: the engine's own guesses, step by step, as if a model had written that text, with what
// steps cost. No model runs.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "shared/grammar/token_masks.h"
#include "shared/plan/plan.h"

namespace holdfast::bench {

constexpr std::size_t kGuessesMost = plan::kDraftRows;  // of a step
/// What a step with n guesses takes, as a multiple of one without.
using StepCosts = std::array<double, kGuessesMost + 1>;

struct ReplayText {
  std::vector<std::int32_t> before;            // the prompt
  std::vector<std::int32_t> tokens;            // what was written, at least two
  std::shared_ptr<grammar::TokenMasks> masks;  // of the grammar that it follows; may be null
};

struct Replayed {
  std::int64_t tokens = 0;  // made by steps: all but the first
  std::int64_t steps = 0;
  std::int64_t guessed = 0;
  std::int64_t right = 0;
  double cost = 0;  // in steps without guesses
  /// Times as fast as without guesses.
  double gain() const { return cost > 0 ? static_cast<double>(tokens) / cost : 1; }
};

/// kFileInvalid: the text does not follow its grammar.
Result<Replayed> replay(const ReplayText& text, const StepCosts& costs);

}  // namespace holdfast::bench
