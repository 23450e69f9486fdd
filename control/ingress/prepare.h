#pragma once
// From what a client sent to token ids. Runs in the ingress helper, never in the daemon: this is
// where user input meets regular expressions and templates.

#include <list>
#include <memory>
#include <string>
#include <utility>

#include "shared/text/tokenizer.h"
#include "shared/wire/messages.h"

namespace holdfast::ingress {

using TokenizerPtr = std::shared_ptr<const text::Tokenizer>;

struct PrepareLimits {
  std::size_t prompt_bytes = 1 << 20;  // of one prompt, text or chat JSON
  std::size_t prompt_ids = 1 << 20;
};

/// Never fails as such: what is wrong with the prompts stands in Prepared::refusal. `tokenizer` is
/// null for a model without one: token ids pass, text is kInvalidRequest, chat kNoChatTemplate.
wire::Prepared prepare(const wire::Prepare& job, const text::Tokenizer* tokenizer,
                       const PrepareLimits& limits);

/// The tokenizers of the models used last, by model_sha. Not thread-safe.
class TokenizerCache {
 public:
  explicit TokenizerCache(std::size_t size) : size_(size) {}
  struct Entry {
    TokenizerPtr tokenizer;  // null: the model has none, or
    Error error;             // it cannot be used (text not empty)
  };
  /// nullptr if unknown.
  const Entry* find(const std::string& model_sha);
  /// Reads the blob (empty: the model has no tokenizer).
  void put(const std::string& model_sha, std::string blob);

 private:
  std::size_t size_;
  std::list<std::pair<std::string, Entry>> entries_;  // newest first
};

}  // namespace holdfast::ingress
