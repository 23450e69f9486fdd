#pragma once
// Reads and checks the tokenizer.* keys of a file; the tokenizers are made from the result.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"

namespace holdfast::text {

/// Values of tokenizer.ggml.token_type. Any other number counts as kUndefined.
enum class TokenKind : std::uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

/// A checked vocabulary. Every id is below texts.size() or -1. Views live as long as the file.
struct Vocab {
  std::string_view model;  // "llama", "gpt2", "bert", "t5", "gemma4"
  std::string_view pre;    // "default" if the file does not say
  std::string_view chat_template;
  std::vector<std::string_view> texts;  // as in the file; not empty
  std::vector<TokenKind> kinds;         // as many
  std::vector<float> scores;            // as many for "llama" and "t5", finite; else empty
  std::vector<bool> is_end;             // as many
  std::vector<bool> rstrip;             // as many: white space after this special token is dropped
  std::int32_t bos = -1;
  std::int32_t eos = -1;
  std::int32_t unknown = -1;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;
};

/// Reads a vocabulary. kFileInvalid names the key and what was expected; kUnsupported names the
/// tokenizer model.
Result<Vocab> read_vocab(const gguf::File& file);

/// Returns true if the key tokenizer.ggml.add_bos_token exists; without it a pre-tokenizer may
/// decide.
bool says_add_bos(const gguf::File& file);

/// Returns kFileInvalid for the tokenizer of this file: its name, the key, the cause and what to
/// do.
Error vocab_error(const gguf::File& file, std::string_view key, const std::string& cause);

/// Returns the byte of a token text "<0xAB>" (two hexadecimal digits of any case), -1 for any other
/// text.
int byte_of_token_text(std::string_view text);

}  // namespace holdfast::text
