#include "shared/text/tokenizer_base.h"

#include <limits>

#include "shared/text/utf8.h"

namespace holdfast::text {
namespace {

bool is_ascii_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const gguf::File& file) {
  HOLDFAST_TRY(const Vocab vocab, read_vocab(file));
  if (vocab.model == "gpt2") return make_bpe(file, vocab);
  if (vocab.model == "bert") return make_word_piece(file, vocab);
  if (vocab.model == "t5") return make_unigram(file, vocab);
  return make_sentence_piece(file, vocab);
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
  std::vector<SpecialMatcher::Entry> every;
  std::vector<SpecialMatcher::Entry> user;
  for (std::size_t i = 0; i < vocab.texts.size(); ++i) {
    const TokenKind kind = vocab.kinds[i];
    const bool hidden =
        kind == TokenKind::kControl || kind == TokenKind::kUnknown || vocab.is_end[i];
    flags_.push_back(static_cast<std::uint8_t>((vocab.is_end[i] ? kEnd : 0) |
                                               (hidden ? kControl : 0) |
                                               (vocab.rstrip[i] ? kEatsSpace : 0)));
    token_bytes_ += decoded_tokens[i];
    token_ends_.push_back(token_bytes_.size());
    const bool special = kind == TokenKind::kControl || kind == TokenKind::kUnknown;
    if ((!special && kind != TokenKind::kUserDefined) || vocab.texts[i].empty()) continue;
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

std::string_view TokenizerBase::token_bytes(TokenId id, bool special) const {
  if (id < 0 || id >= vocab_size()) return {};
  if (!special && is_control(id)) return {};
  const auto at = static_cast<std::size_t>(id);
  const std::uint64_t begin = at == 0 ? 0 : token_ends_[at - 1];
  return std::string_view(token_bytes_).substr(begin, token_ends_[at] - begin);
}

Result<std::vector<TokenId>> TokenizerBase::encode(std::string_view text,
                                                   const EncodeOptions& options) const {
  if (text.size() >= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    return Error{Errc::kInvalidRequest, "encode text: it has " + std::to_string(text.size()) +
                                            " bytes; expected fewer than 2^31"};
  }
  if (const auto at = first_invalid_utf8(text)) {
    return Error{Errc::kInvalidRequest, "encode text: invalid UTF-8 at byte offset " +
                                            std::to_string(*at) + "; expected UTF-8 text"};
  }
  Work work;
  work.ids.reserve(text.size() / 3 + 8);
  if (options.add_special && add_bos_) work.ids.push_back(bos_);
  const SpecialMatcher& matcher = options.parse_special ? every_special_ : user_defined_;
  std::size_t at = 0;
  bool after_special = true;
  auto plain = options.plain.begin();
  const auto find_special = [&] {
    SpecialMatcher::Match match = matcher.find(text, at);
    while (match.id >= 0) {
      while (plain != options.plain.end() && *plain < match.begin) ++plain;
      if (plain == options.plain.end() || *plain != match.begin) break;
      match = matcher.find(text, match.begin + 1);
    }
    return match;
  };
  while (at < text.size()) {
    const SpecialMatcher::Match match = find_special();
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
    if (!has_flag(match.id, kEatsSpace)) continue;
    while (at < text.size() && is_ascii_space(text[at])) ++at;
  }
  if (options.add_special && add_eos_) work.ids.push_back(eos_);
  return std::move(work.ids);
}

}  // namespace holdfast::text
