#pragma once
// Writes parts of a tokenizer.json. Internal to shared/huggingface.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"

namespace holdfast::huggingface {

/// Values of tokenizer.ggml.token_type.
enum Kind : std::int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUser = 4,
  kUnused = 5,
  kByte = 6
};

/// The vocabulary of a file: each token's text and kind, by id. The texts are views of the file.
struct Tokens {
  std::vector<std::string_view> texts;
  std::vector<std::int64_t> kinds;
};

/// Returns kUnsupported for the conversion of this file: "convert NAME: …".
Error unsupported(const gguf::File& file, const std::string& what);

/// Reads the tokens. kUnsupported: there are none.
Result<Tokens> read_tokens(const gguf::File& file);

/// Return "normalizer", "pre_tokenizer", "decoder" and "model" of a WordPiece tokenizer ("bert")
/// and of a Unigram one ("t5"). kUnsupported: something that could not be read back from a
/// tokenizer.json.
Result<nlohmann::json> word_piece_parts(const gguf::File& file, const Tokens& tokens);
Result<nlohmann::json> unigram_parts(const gguf::File& file, const Tokens& tokens);

}  // namespace holdfast::huggingface
