#pragma once
// The end of a choice, by its ids alone: the worker that resumes a choice from its committed ids
// finds the same end as the one that made them.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/text/releaser.h"
#include "shared/text/tokenizer.h"
#include "worker/engine/engine.h"

namespace holdfast::engine {

/// End tokens and token bytes: of a tokenizer, or of the fake engine without one.
struct Vocabulary {
  std::shared_ptr<const text::Tokenizer> tokenizer;  // may be null
  TokenId fake_end = -1;                             // the one end token when there is none
  bool is_end(TokenId id) const { return tokenizer ? tokenizer->is_end(id) : id == fake_end; }
};

/// Takes the generated ids of one choice in order and says when it ends. Stop strings are matched
/// by text::Releaser over the token bytes, as every reader of the stream does it; so min_tokens
/// delays end tokens only, never a stop string. Not thread-safe.
class StopCondition {
 public:
  StopCondition() = default;
  /// `total_max`: generated tokens at most (max_tokens and the context, whichever is less).
  StopCondition(const Vocabulary* vocabulary, std::vector<std::string> stops,
                std::int64_t total_max, bool ignore_eos);
  /// Returns the state before any token: kLength if not one is allowed.
  wire::FinishReason start() const;
  /// Returns the state after one more id. An end token and the token that completes a stop string
  /// are the last id of their choice (kStop).
  wire::FinishReason feed(TokenId id);

 private:
  const Vocabulary* vocabulary_ = nullptr;
  text::Releaser releaser_;
  bool has_stops_ = false;
  bool ignore_eos_ = false;
  std::int64_t total_max_ = 0;
  std::int64_t count_ = 0;
};

/// Checks what add() refuses whatever is running: ids outside [0, vocab), parameters out of range,
/// stop strings without a tokenizer, lengths that can never fit. `pages_total` of kPageTokens each.
Result<void> check_spec(const SequenceSpec& spec, const Vocabulary& vocabulary, std::int32_t vocab,
                        std::int64_t context, std::int32_t pages_total);

/// True if log-probabilities of the prompt are requested and not yet committed: they come with the
/// first token.
bool wants_scores(const SequenceSpec& spec);

/// The shortest prompt of a prefill-heavy sequence.
inline constexpr std::int64_t kPrefillHeavyPromptMin = 128;
/// True if a sequence is prefill-heavy: its prompt is long and has at least `prefill_heavy_ratio`
/// tokens for each that may be generated. Where kernels differ, those that prefill faster and
/// decode at half the rate then end sooner (docs/inside/kernels.md). Scores of a prompt are to be
/// those that its text would be generated with, so a scored prompt never is. A fact of the request
/// and of its class: nothing else may decide it. False where prefill_heavy_ratio is 0: there is one
/// kind of kernels.
bool is_prefill_heavy(const SequenceSpec& spec, std::int64_t prefill_heavy_ratio);

/// Generated tokens at most: max_tokens, or less where the context ends before.
std::int64_t generated_max(const SequenceSpec& spec, std::int64_t context);

/// KV pages for n positions.
std::int32_t pages_for(std::int64_t n);

}  // namespace holdfast::engine
