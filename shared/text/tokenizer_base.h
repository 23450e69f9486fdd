#pragma once
// The common part of all tokenizers: special tokens, BOS and EOS, token bytes.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/text/merges.h"
#include "shared/text/normal_form.h"
#include "shared/text/special_matcher.h"
#include "shared/text/tokenizer.h"
#include "shared/text/vocab.h"

namespace holdfast::text {

/// Finds special tokens and passes the text between them to the derived class, which encodes it.
class TokenizerBase : public Tokenizer {
 public:
  Result<std::vector<TokenId>> encode(std::string_view text,
                                      const EncodeOptions& options) const final;
  TokenId special_at(std::string_view text, std::size_t at, bool* open) const final {
    return every_special_.match_at(text, at, open).id;
  }
  std::string_view token_bytes(TokenId id, bool special) const final;
  std::int32_t vocab_size() const final { return static_cast<std::int32_t>(token_ends_.size()); }
  TokenId bos() const final { return bos_; }
  TokenId eos() const final { return eos_; }
  bool is_end(TokenId id) const final { return has_flag(id, kEnd); }
  bool is_control(TokenId id) const final { return has_flag(id, kControl); }
  bool adds_space_prefix() const final { return space_prefix_; }
  std::string_view model() const final { return model_; }
  std::string_view pre() const final { return pre_; }
  std::string_view chat_template() const final { return chat_template_; }
  std::string_view warning() const final { return warning_; }

 protected:
  /// The buffers of one encode call.
  struct Work {
    std::vector<TokenId> ids;
    MergeScratch scratch;
    std::vector<std::uint32_t> ends;  // of words
    std::string text;                 // a fragment in the vocabulary's spelling
  };
  /// Appends the ids of plain text without special tokens. `after_special`: it is the first of the
  /// text or follows a special token.
  virtual Result<void> encode_fragment(std::string_view fragment, bool after_special,
                                       Work& work) const = 0;
  /// Takes ids, flags and special tokens from the vocabulary. `add_bos` overrides the vocabulary's.
  /// kFileInvalid for a special token longer than the matcher allows.
  Result<void> set_up(const gguf::File& file, const Vocab& vocab,
                      const std::vector<std::string>& decoded_tokens, bool add_bos);
  void set_space_prefix(bool space_prefix) { space_prefix_ = space_prefix; }
  void set_warning(std::string warning) { warning_ = std::move(warning); }

 private:
  enum Flag : std::uint8_t { kEnd = 1, kControl = 2, kEatsSpace = 4 };
  bool has_flag(TokenId id, Flag flag) const {
    return id >= 0 && id < vocab_size() && (flags_[static_cast<std::size_t>(id)] & flag) != 0;
  }

  const SpecialMatcher& matcher_for(const EncodeOptions& options) const {
    return options.parse_special ? every_special_ : user_defined_;
  }
  static std::uint8_t flags_of(const Vocab& vocab, std::size_t i);
  Result<void> set_up_matchers(const gguf::File& file, const Vocab& vocab);

  std::string model_;
  std::string pre_;
  std::string chat_template_;
  std::string warning_;
  std::string token_bytes_;
  std::vector<std::uint64_t> token_ends_;
  std::vector<std::uint8_t> flags_;
  SpecialMatcher every_special_;
  SpecialMatcher user_defined_;  // tokens that match even where special tokens are not parsed
  NormalForm form_ = NormalForm::kNone;
  TokenId bos_ = -1;
  TokenId eos_ = -1;
  bool add_bos_ = false;
  bool add_eos_ = false;
  bool space_prefix_ = false;
};

/// Makes tokenizers from a checked vocabulary with model "gpt2", and with "llama" or "gemma4".
Result<std::shared_ptr<const Tokenizer>> make_bpe(const gguf::File& file, const Vocab& vocab);
Result<std::shared_ptr<const Tokenizer>> make_sentence_piece(const gguf::File& file,
                                                             const Vocab& vocab);
/// Makes tokenizers for the models "bert" and "t5".
Result<std::shared_ptr<const Tokenizer>> make_word_piece(const gguf::File& file,
                                                         const Vocab& vocab);
Result<std::shared_ptr<const Tokenizer>> make_unigram(const gguf::File& file, const Vocab& vocab);

}  // namespace holdfast::text
