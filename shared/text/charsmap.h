#pragma once
// SentencePiece's precompiled character map: a trie of byte sequences and their replacements.
// Source of the layout: sentencepiece's normalizer and darts-clone (format facts).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::text {

/// A character map. Immutable: safe from any thread. An empty map changes nothing.
class Charsmap {
 public:
  Charsmap() = default;
  /// Parses u32 bytes of the trie | trie of u32 units | zero-terminated texts. kFileInvalid.
  static Result<Charsmap> parse(std::string blob);
  bool empty() const { return units_.empty(); }

  struct Found {
    std::size_t bytes = 0;  // of the input, 0: no replacement here
    std::string_view text;  // the replacement
  };
  /// Returns the longest sequence of the map at the start of `text`.
  Found find(std::string_view text) const;

 private:
  std::string blob_;
  std::vector<std::uint32_t> units_;
  std::size_t texts_ = 0;  // offset of the texts in blob_
};

}  // namespace holdfast::text
