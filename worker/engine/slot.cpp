#include "worker/engine/slot.h"

#include <utility>

#include "worker/engine/model_engine_config.h"

namespace holdfast::engine {

namespace {

/// Hands the memory of `old` on, empty.
template <class T>
std::vector<T> emptied(std::vector<T>& old) {
  old.clear();
  return std::move(old);
}

}  // namespace

bool SamplingState::is_bound() const {
  return thinking && thinking->free_tokens() <= kDraftsMax + 1;
}

std::string ProbeState::take_scores(std::span<const TokenId> prompt, std::string extra) {
  const std::unique_ptr<wire::PromptScores> taken = std::move(scores);
  taken->ids.assign(prompt.begin(), prompt.end());
  return wire::with_prompt_scores(std::move(extra), *taken);
}

void Slot::reset() {
  Slot fresh;
  fresh.tokens = emptied(tokens);
  fresh.prefix.pages = emptied(prefix.pages);
  fresh.prefix.marks = emptied(prefix.marks);
  fresh.recurrent.at = recurrent.at;
  fresh.drafter = std::move(drafter);
  fresh.drafter.restart();
  *this = std::move(fresh);
}

std::string key_text(SequenceKey key) {
  return "add sequence " + std::to_string(key) + ": ";
}

}  // namespace holdfast::engine
