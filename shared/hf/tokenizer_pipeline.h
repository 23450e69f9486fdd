#pragma once
// The normaliser and pre-tokenizer of a tokenizer.json, reduced to what our
// tokenizers do. Internal to shared/hf.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::hf {

struct Pipeline {
  bool byte_level = false;            // words are bytes in GPT-2's alphabet
  std::vector<std::string> patterns;  // that cut the text, in turn, as PCRE2 takes them
  bool meta = false;                  // spaces are U+2581
  bool prefix_space = false;          // one in front of the text
  std::string form;                   // "nfc", "nfkc" or empty
  bool lowercase = false;
  bool bert = false;            // BertNormalizer or BertPreTokenizer
  bool strip_accents = false;   // of BertNormalizer
  bool chinese = false;         // characters alone, of BertNormalizer
  bool strip = false;           // white space at the ends goes
  std::string charsmap;         // of sentencepiece, base64
  bool squeeze_spaces = false;  // runs of spaces become one, spaces at the ends go
};

/// kUnsupported names the kind that is not known or not done exactly.
Result<Pipeline> read_pipeline(const nlohmann::json& tokenizer);

}  // namespace holdfast::hf
