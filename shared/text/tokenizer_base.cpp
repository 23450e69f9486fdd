#include "shared/text/tokenizer_base.h"

#include <limits>
#include <span>

#include "shared/text/utf8.h"

namespace holdfast::text {
namespace {

std::size_t after_ascii_spaces(std::string_view text, std::size_t at) {
  while (at < text.size() && (text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r'))) ++at;
  return at;
}

bool is_special(TokenKind kind) {
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown;
}

// Finds special tokens from the start of a text to its end, but for those that begin at the places
// where the text is plain.
class SpecialFinder {
 public:
  SpecialFinder(const SpecialMatcher& matcher, std::string_view text,
                std::span<const std::size_t> plain)
      : matcher_(matcher), text_(text), plain_(plain) {}

  // Returns the first match from `at` on. Places never go back.
  SpecialMatcher::Match next(std::size_t at) {
    SpecialMatcher::Match match = matcher_.find(text_, at);
    while (match.id >= 0) {
      while (!plain_.empty() && plain_.front() < match.begin) plain_ = plain_.subspan(1);
      if (plain_.empty() || plain_.front() != match.begin) break;
      match = matcher_.find(text_, match.begin + 1);
    }
    return match;
  }

 private:
  const SpecialMatcher& matcher_;
  std::string_view text_;
  std::span<const std::size_t> plain_;  // the rest: those not passed yet
};

Result<void> check_text(std::string_view text) {
  if (text.size() >= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    return Error{Errc::kInvalidRequest, "encode text: it has " + std::to_string(text.size()) +
                                            " bytes; expected fewer than 2^31"};
  }
  if (const auto at = first_invalid_utf8(text)) {
    return Error{Errc::kInvalidRequest, "encode text: invalid UTF-8 at byte offset " +
                                            std::to_string(*at) + "; expected UTF-8 text"};
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const gguf::File& file) {
  HOLDFAST_TRY(const Vocab vocab, read_vocab(file));
  if (vocab.model == "gpt2") return make_bpe(file, vocab);
  if (vocab.model == "bert") return make_word_piece(file, vocab);
  if (vocab.model == "t5") return make_unigram(file, vocab);
  return make_sentence_piece(file, vocab);
}

std::uint8_t TokenizerBase::flags_of(const Vocab& vocab, std::size_t i) {
  const bool hidden = is_special(vocab.kinds[i]) || vocab.is_end[i];
  return static_cast<std::uint8_t>((vocab.is_end[i] ? kEnd : 0) | (hidden ? kControl : 0) |
                                   (vocab.rstrip[i] ? kEatsSpace : 0));
}

Result<void> TokenizerBase::set_up_matchers(const gguf::File& file, const Vocab& vocab) {
  std::vector<SpecialMatcher::Entry> every;
  std::vector<SpecialMatcher::Entry> user;
  for (std::size_t i = 0; i < vocab.texts.size(); ++i) {
    const bool special = is_special(vocab.kinds[i]);
    const bool matched = special || vocab.kinds[i] == TokenKind::kUserDefined;
    if (!matched || vocab.texts[i].empty()) continue;
    if (vocab.texts[i].size() > SpecialMatcher::kLongestSpecial) {
      return vocab_error(file, "tokenizer.ggml.tokens",
                         "special token " + std::to_string(i) + " has " +
                             std::to_string(vocab.texts[i].size()) + " bytes; expected at most " +
                             std::to_string(SpecialMatcher::kLongestSpecial));
    }
    const SpecialMatcher::Entry entry{vocab.texts[i], static_cast<TokenId>(i)};
    every.push_back(entry);
    if (!special) user.push_back(entry);
  }
  every_special_ = SpecialMatcher(std::move(every));
  user_defined_ = SpecialMatcher(std::move(user));
  return {};
}

Result<void> TokenizerBase::set_up(const gguf::File& file, const Vocab& vocab,
                                   const std::vector<std::string>& decoded_tokens, bool add_bos) {
  model_ = vocab.model;
  pre_ = vocab.pre;
  chat_template_ = vocab.chat_template;
  bos_ = vocab.bos;
  eos_ = vocab.eos;
  add_bos_ = add_bos;
  add_eos_ = vocab.add_eos;
  space_prefix_ = vocab.add_space_prefix;
  HOLDFAST_TRY(form_, read_normal_form(file));
  for (std::size_t i = 0; i < vocab.texts.size(); ++i) {
    flags_.push_back(flags_of(vocab, i));
    token_bytes_ += decoded_tokens[i];
    token_ends_.push_back(token_bytes_.size());
  }
  return set_up_matchers(file, vocab);
}

std::string_view TokenizerBase::token_bytes(TokenId id, bool special) const {
  if (id < 0 || id >= vocab_size()) return {};
  if (!special && is_control(id)) return {};
  const auto at = static_cast<std::size_t>(id);
  const std::uint64_t begin = at == 0 ? 0 : token_ends_[at - 1];
  return std::string_view(token_bytes_).substr(begin, token_ends_[at] - begin);
}

Result<std::vector<TokenId>> TokenizerBase::encode(std::string_view text,
                                                   const EncodeOptions& options) const {
  HOLDFAST_CHECKED(check_text(text));
  Work work;
  work.ids.reserve(text.size() / 3 + 8);
  if (options.add_special && add_bos_) work.ids.push_back(bos_);
  SpecialFinder finder(matcher_for(options), text, options.plain);
  std::size_t at = 0;
  bool after_special = true;
  while (at < text.size()) {
    const SpecialMatcher::Match match = finder.next(at);
    if (match.begin > at) {
      std::string normal;
      const std::string_view fragment = text.substr(at, match.begin - at);
      HOLDFAST_CHECKED(
          encode_fragment(in_normal_form(form_, fragment, normal), after_special, work));
      after_special = false;
    }
    at = match.end;
    if (match.id < 0) continue;
    work.ids.push_back(match.id);
    after_special = true;
    if (has_flag(match.id, kEatsSpace)) at = after_ascii_spaces(text, at);
  }
  if (options.add_special && add_eos_) work.ids.push_back(eos_);
  return std::move(work.ids);
}

}  // namespace holdfast::text
