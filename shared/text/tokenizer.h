#pragma once
// Text to token ids and back, as the model's own tokenizer does it.

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

struct EncodeOptions {
  bool add_special = true;    // BOS/EOS as the file's add_bos_token/add_eos_token say
  bool parse_special = true;  // "<|im_end|>" in the text becomes the control token
  /// Offsets, ascending, where no special token may begin: what stands there is plain text.
  std::span<const std::size_t> plain = {};
};

/// Immutable after load: safe from any thread.
class Tokenizer {
 public:
  /// From the tokenizer.* keys. kFileInvalid (which key, what was expected),
  /// kUnsupported (a model that we do not know; an unknown pre-tokenizer is a
  /// warning()).
  static Result<std::shared_ptr<const Tokenizer>> load(const gguf::File& file);
  virtual ~Tokenizer() = default;

  /// kInvalidRequest if `text` is not valid UTF-8 (with the byte offset).
  virtual Result<std::vector<TokenId>> encode(std::string_view text,
                                              const EncodeOptions&) const = 0;
  /// The special token whose text begins at byte `at` of `text`, the longest one; -1: none. `open`:
  /// the text ends inside of one that begins there.
  virtual TokenId special_at(std::string_view text, std::size_t at, bool* open) const = 0;
  /// The bytes that one token stands for in running text (SPM's space mark is a space; a byte token
  /// is its byte). Control tokens (BOS, <|im_end|>) are empty unless `special`. Out of range:
  /// empty.
  virtual std::string_view piece(TokenId id, bool special = false) const = 0;

  virtual std::int32_t vocab_size() const = 0;
  virtual TokenId bos() const = 0;  // -1 if there is none
  virtual TokenId eos() const = 0;
  /// Ends a generation: eos, eot, eom and the like.
  virtual bool is_end(TokenId id) const = 0;
  virtual bool is_control(TokenId id) const = 0;
  /// Encoding puts a space in front of the text (SPM); decode() takes it off again.
  virtual bool adds_space_prefix() const { return false; }
  virtual std::string_view model() const = 0;          // "llama", "gpt2", …
  virtual std::string_view pre() const = 0;            // pre-tokenizer name
  virtual std::string_view chat_template() const = 0;  // empty if the file has none
  /// What a user should know about this tokenizer, one line; empty if all is
  /// well.
  virtual std::string_view warning() const { return {}; }
};

/// Joins pieces; for SPM the space that encoding put in front of the text is taken off again when
/// `first_of_text`.
std::string decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool special,
                   bool first_of_text);

/// All pieces of a vocabulary as one blob, for the daemon, which holds no tokenizer:
/// u32 count, count x u32 end offsets, u8 flags (bit 0: end token, bit 1: control), bytes.
std::string encode_pieces(const Tokenizer& tokenizer);

/// Reads such a blob. Immutable, thread-safe.
class PieceTable {
 public:
  static Result<PieceTable> parse(std::string blob);
  std::int32_t size() const { return count_; }
  /// Empty for an id out of range and for control tokens.
  std::string_view piece(TokenId id) const;
  bool is_end(TokenId id) const;
  bool is_control(TokenId id) const;
  /// What a token adds to a text, or what it is called if it is a control token.
  std::string_view name(TokenId id) const { return stored(id); }
  /// What a control token is called ("<|python_tag|>"); empty for all others and for ends, and in a
  /// blob of an older release.
  std::string_view control_text(TokenId id) const;

 private:
  std::uint8_t flags(TokenId id) const;
  std::string_view stored(TokenId id) const;
  std::string blob_;
  std::int32_t count_ = 0;
};

}  // namespace holdfast::text
