#pragma once
// The bytes of tokens, per model file, for EVENT.

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "control/store/store.h"
#include "shared/text/tokenizer.h"
#include "shared/wire/messages.h"

namespace holdfast::link {

/// What a token stands for, control tokens by their name.
inline std::string_view token_bytes(const text::PieceTable& pieces, text::TokenId id) {
  return pieces.is_control(id) ? pieces.control_text(id) : pieces.piece(id);
}

class PieceCache {
 public:
  explicit PieceCache(store::Store& store) : store_(store) {}
  /// Fills bytes and ends from ids, and those of the alternatives and of the prompt's scores in
  /// `extra`. A model without a tokenizer has empty pieces.
  void fill(const std::string& model_sha, wire::Event& event);
  /// The file was registered again.
  void forget(const std::string& model_sha) { tables_.erase(model_sha); }
  /// nullptr: the model has no tokenizer.
  const text::PieceTable* table(const std::string& model_sha);

 private:
  store::Store& store_;
  std::unordered_map<std::string, std::unique_ptr<text::PieceTable>> tables_;
};

}  // namespace holdfast::link
