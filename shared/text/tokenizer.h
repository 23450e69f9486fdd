#pragma once
// Text to token ids and back, like the model's own tokenizer.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"

namespace holdfast::text {

using TokenId = std::int32_t;

/// Options of one encode call.
struct EncodeOptions {
  bool add_special = true;    // BOS/EOS by the file's add_bos_token/add_eos_token
  bool parse_special = true;  // "<|im_end|>" in the text becomes the control token
  /// Offsets, ascending, where no special token may begin: the text there is plain.
  std::span<const std::size_t> plain = {};
};

/// A model's tokenizer. Immutable after load: safe from any thread.
class Tokenizer {
 public:
  /// Loads from the tokenizer.* keys. kFileInvalid (which key, what was expected), kUnsupported (an
  /// unknown model; an unknown pre-tokenizer is a warning()).
  static Result<std::shared_ptr<const Tokenizer>> load(const gguf::File& file);
  virtual ~Tokenizer() = default;

  /// Returns the token ids of a text. kInvalidRequest if `text` is not valid UTF-8 (with the byte
  /// offset).
  virtual Result<std::vector<TokenId>> encode(std::string_view text,
                                              const EncodeOptions&) const = 0;
  /// Returns the special token whose text begins at byte `at` of `text`, the longest one; -1: none.
  /// `open`: the text ends inside of one that begins there.
  virtual TokenId special_at(std::string_view text, std::size_t at, bool* open) const = 0;
  /// Returns the token bytes in running text (SPM's space mark is a space; a byte token is its
  /// byte). Control tokens (BOS, <|im_end|>) are empty unless `special`. Out of range: empty.
  virtual std::string_view token_bytes(TokenId id, bool special = false) const = 0;

  virtual std::int32_t vocab_size() const = 0;
  virtual TokenId bos() const = 0;  // -1 if there is none
  virtual TokenId eos() const = 0;
  /// Returns true for tokens that end a generation: eos, eot, eom and the like.
  virtual bool is_end(TokenId id) const = 0;
  virtual bool is_control(TokenId id) const = 0;
  /// Returns true if encoding puts a space before the text (SPM); decode() removes it again.
  virtual bool adds_space_prefix() const { return false; }
  virtual std::string_view model() const = 0;          // "llama", "gpt2", …
  virtual std::string_view pre() const = 0;            // pre-tokenizer name
  virtual std::string_view chat_template() const = 0;  // empty if the file has none
  /// Returns one line that a user should know about this tokenizer; empty if all is well.
  virtual std::string_view warning() const { return {}; }
};

/// Returns the concatenation of the token bytes; for SPM without the space that encoding put before
/// the text, if `first_of_text`.
std::string decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool special,
                   bool first_of_text);

/// Encodes all token bytes of a vocabulary as one blob, for the daemon, which holds no tokenizer:
/// u32 count, count x u32 end offsets, u8 flags (bit 0: end token, bit 1: control), bytes.
std::string encode_detokenizer_table(const Tokenizer& tokenizer);

/// A table of token bytes, read from such a blob. Immutable, thread-safe.
class DetokenizerTable {
 public:
  static Result<DetokenizerTable> parse(std::string blob);
  std::int32_t size() const { return count_; }
  /// Returns the token bytes; empty for an id out of range and for control tokens.
  std::string_view token_bytes(TokenId id) const;
  bool is_end(TokenId id) const;
  bool is_control(TokenId id) const;
  /// Returns the token bytes, or the name of a control token.
  std::string_view name(TokenId id) const { return stored(id); }
  /// Returns the name of a control token ("<|python_tag|>"); empty for all others and for ends, and
  /// in a blob of an older release.
  std::string_view control_text(TokenId id) const;

 private:
  std::uint8_t flags(TokenId id) const;
  std::string_view stored(TokenId id) const;
  std::string blob_;
  std::int32_t count_ = 0;
};

}  // namespace holdfast::text
