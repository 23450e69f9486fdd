#pragma once
// Turns what a client sent into token ids. Runs in the ingress helper, never in the daemon: user
// input meets regular expressions and templates here.

#include <list>
#include <memory>
#include <string>
#include <utility>

#include "shared/text/tokenizer.h"
#include "shared/wire/messages.h"

namespace holdfast::ingress {

using TokenizerPtr = std::shared_ptr<const text::Tokenizer>;

/// Bounds of one prompt; a longer one is refused.
struct PrepareLimits {
  std::size_t prompt_bytes = 1 << 20;  // most bytes of one prompt, text or chat JSON
  std::size_t prompt_ids = 1 << 20;
};

/// Prepares the prompts of a job. Never fails as such: Prepared::refusal has the reason.
/// `tokenizer` is null for a model without one: token ids pass, text is kInvalidRequest, chat
/// kNoChatTemplate.
wire::Prepared prepare(const wire::Prepare& job, const text::Tokenizer* tokenizer,
                       const PrepareLimits& limits);

/// The tokenizers of the models that were used last, by model_sha. Not thread-safe.
class TokenizerCache {
 public:
  explicit TokenizerCache(std::size_t size) : size_(size) {}
  struct Entry {
    TokenizerPtr tokenizer;  // null: the model has none, or
    Error error;             // it cannot be used (text not empty)
  };
  /// Returns nullptr if the model is unknown. Valid until put().
  const Entry* find(const std::string& model_sha);
  /// Loads a tokenizer from a GGUF blob (empty: the model has none) and evicts the oldest.
  void put(const std::string& model_sha, std::string blob);

 private:
  std::size_t size_;
  std::list<std::pair<std::string, Entry>> entries_;  // newest first
};

}  // namespace holdfast::ingress
