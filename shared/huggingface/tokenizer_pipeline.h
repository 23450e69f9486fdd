#pragma once
// Reduces the normaliser and pre-tokenizer of a tokenizer.json to the steps of our tokenizers.
// Internal to shared/huggingface.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::huggingface {

/// The steps of a tokenizer before its model.
struct Pipeline {
  bool byte_level = false;            // words are bytes in GPT-2's alphabet
  std::vector<std::string> patterns;  // that cut the text, in turn, in PCRE2's syntax
  bool meta = false;                  // spaces are U+2581
  bool prefix_space = false;          // one before the text
  std::string form;                   // "nfc", "nfkc" or empty
  bool lowercase = false;
  bool bert = false;            // BertNormalizer or BertPreTokenizer
  bool strip_accents = false;   // of BertNormalizer
  bool chinese = false;         // separates Chinese characters, of BertNormalizer
  bool strip = false;           // removes white space at the ends
  std::string charsmap;         // of sentencepiece, base64
  bool squeeze_spaces = false;  // runs of spaces become one, spaces at the ends are removed
};

/// Reads the steps. kUnsupported names a kind that is unknown or cannot be done exactly.
Result<Pipeline> read_pipeline(const nlohmann::json& tokenizer);

}  // namespace holdfast::huggingface
