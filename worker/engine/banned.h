#pragma once
// Texts that must never be generated: each step excludes the tokens that would complete one.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/grammar/token_table.h"

namespace holdfast::engine {

using TokenId = std::int32_t;

/// The banned texts of a request, prepared for one vocabulary. Immutable.
class BannedTexts {
 public:
  /// Cost: a search through the bytes of the vocabulary.
  BannedTexts(std::shared_ptr<const grammar::TokenTable> table, std::vector<std::string> texts);
  const std::vector<std::string>& texts() const { return texts_; }
  /// Bytes of generated text that decide what may follow: one less than the longest text.
  std::size_t tail_bytes() const { return tail_bytes_; }
  /// Ids that may not come after `tail` (the last bytes of the generated text, at least
  /// tail_bytes() of them if there are so many), appended; some may be named twice.
  void after(std::string_view tail, std::vector<TokenId>& ids) const;

 private:
  void starting_with(std::string_view bytes, std::vector<TokenId>& ids) const;
  std::shared_ptr<const grammar::TokenTable> table_;
  std::vector<std::string> texts_;
  std::size_t tail_bytes_ = 0;
  std::vector<TokenId> always_;  // tokens with a whole banned text inside
};

}  // namespace holdfast::engine
