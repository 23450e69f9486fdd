#pragma once
// The bytes of tokens, by model file, for EVENT.

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "control/store/store.h"
#include "shared/text/tokenizer.h"
#include "shared/wire/messages.h"

namespace holdfast::daemon {

/// The bytes of a token; for a control token its name.
inline std::string_view token_bytes_or_name(const text::DetokenizerTable& detokenizer,
                                            text::TokenId id) {
  return detokenizer.is_control(id) ? detokenizer.control_text(id) : detokenizer.token_bytes(id);
}

/// Tables of the models in use, read from the database when first needed. Not thread-safe; `store`
/// outlives it.
class DetokenizerCache {
 public:
  explicit DetokenizerCache(store::Store& store) : store_(store) {}
  /// Fills in bytes and ends of the event's ids, and the bytes of alternatives and of the prompt's
  /// scores in `extra`. Tokens of a model without a tokenizer have no bytes.
  void fill(const std::string& model_sha, wire::Event& event);
  /// Drops the table of a file that was registered again.
  void forget(const std::string& model_sha) { tables_.erase(model_sha); }
  /// Returns nullptr if the model has no tokenizer or it cannot be read.
  const text::DetokenizerTable* table(const std::string& model_sha);

 private:
  store::Store& store_;
  std::unordered_map<std::string, std::unique_ptr<text::DetokenizerTable>> tables_;
};

}  // namespace holdfast::daemon
