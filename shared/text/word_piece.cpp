// WordPiece ("bert"): words are cut at white space and punctuation, then from the left into the
// longest tokens of the vocabulary. A file spells a token that begins a word with a leading U+2581,
// one inside a word without its "##". Source: BERT's tokenization.py.

#include <utf8proc.h>

#include "shared/text/token_map.h"
#include "shared/text/tokenizer_base.h"
#include "shared/text/utf8.h"

namespace holdfast::text {
namespace {

constexpr std::string_view kMeta = "\xE2\x96\x81";  // U+2581

bool is_space(char32_t c) {
  if (c == ' ' || (c >= '\t' && c <= '\r')) return true;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_ZS || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_dropped(char32_t c) {
  if (c == 0 || c == 0xFFFD) return true;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CN || category == UTF8PROC_CATEGORY_CO;
}

bool is_punctuation(char32_t c) {
  const auto in = [c](char32_t from, char32_t to) { return c >= from && c <= to; };
  if (c < 128) return in(33, 47) || in(58, 64) || in(91, 96) || in(123, 126);
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

// Returns true in blocks of ideographs (the same list as in BERT's code and its ports).
bool is_chinese(char32_t c) {
  const auto in = [c](char32_t from, char32_t to) { return c >= from && c <= to; };
  return in(0x4E00, 0x9FFF) || in(0x3400, 0x4DBF) || in(0x20000, 0x2A6DF) || in(0x2A700, 0x2B73F) ||
         in(0x2B740, 0x2B81F) || in(0x2B920, 0x2CEAF) || in(0xF900, 0xFAFF) || in(0x2F800, 0x2FA1F);
}

class WordPiece final : public TokenizerBase {
 public:
  Result<void> make(const gguf::File& file, const Vocab& vocab) {
    const std::size_t count = vocab.texts.size();
    std::vector<std::string> decoded_tokens(count);
    starts_ = TokenMap(count);
    inside_ = TokenMap(count);
    for (std::size_t i = 0; i < count; ++i) {
      std::string_view text = vocab.texts[i];
      const bool starts = text.starts_with(kMeta);
      if (starts) text.remove_prefix(kMeta.size());
      decoded_tokens[i] = (starts ? " " : "") + std::string(text);
      const TokenKind kind = vocab.kinds[i];
      const bool plain = kind != TokenKind::kControl && kind != TokenKind::kUnknown;
      if (plain && !text.empty())
        (starts ? starts_ : inside_).insert(text, static_cast<TokenId>(i));
    }
    unknown_ = vocab.unknown;
    const auto flag = [&file](const char* key) { return file.get_bool(key).value_or(true); };
    lowercase_ = flag("tokenizer.holdfast.lowercase");
    strip_accents_ = flag("tokenizer.holdfast.strip_accents");
    chinese_ = flag("tokenizer.holdfast.chinese");
    HOLDFAST_CHECKED(set_up(file, vocab, decoded_tokens, vocab.add_bos));
    set_space_prefix(true);  // the first word's space is not part of a text
    return {};
  }

 protected:
  Result<void> encode_fragment(std::string_view fragment, bool, Work& work) const override {
    work.text.clear();
    for (std::size_t at = 0; at < fragment.size();) {
      const Char c = decode_char(fragment.data() + at);
      at += c.bytes;
      if (c.point < 128) {
        take(c.point, work);
      } else {
        take_wide(c.point, work);
      }
    }
    end_word(work);
    return {};
  }

 private:
  /// Takes one character as the model reads it: white space and punctuation end a word.
  void take(char32_t c, Work& work) const {
    if (is_space(c)) return end_word(work);
    if (is_dropped(c)) return;
    if (lowercase_) {
      c = c < 128 ? (c >= 'A' && c <= 'Z' ? c + 32 : c)
                  : static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
    }
    const bool alone = is_punctuation(c) || (chinese_ && is_chinese(c));
    if (alone) end_word(work);
    append_utf8(c, work.text);
    if (alone) end_word(work);
  }

  void take_wide(char32_t c, Work& work) const {
    if (!strip_accents_) return take(c, work);
    utf8proc_int32_t parts[8];
    int last = 0;
    const utf8proc_ssize_t n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 8,
                                                       UTF8PROC_DECOMPOSE, &last);
    if (n <= 0 || n > 8) return take(c, work);
    for (utf8proc_ssize_t i = 0; i < n; ++i) {
      if (utf8proc_category(parts[i]) == UTF8PROC_CATEGORY_MN) continue;
      take(static_cast<char32_t>(parts[i]), work);
    }
  }

  /// Appends the longest tokens from the left; a word that they do not cover is unknown as a whole.
  void end_word(Work& work) const {
    constexpr std::size_t kLongest = 100;  // characters, as in BERT's code
    const std::string_view word = work.text;
    if (word.empty()) return;
    const std::size_t first = work.ids.size();
    std::size_t characters = 0;
    for (const char c : word) characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
    std::size_t at = 0;
    while (characters <= kLongest && at < word.size()) {
      const TokenMap& map = at == 0 ? starts_ : inside_;
      std::size_t end = std::min(word.size(), at + map.longest_key());
      TokenId id = -1;
      for (; end > at && id < 0; --end) id = map.find(word.substr(at, end - at));
      if (id < 0) break;
      work.ids.push_back(id);
      at = end + 1;
    }
    if (at < word.size()) {
      work.ids.resize(first);
      if (unknown_ >= 0) work.ids.push_back(unknown_);
    }
    work.text.clear();
  }

  TokenMap starts_;
  TokenMap inside_;
  TokenId unknown_ = -1;
  bool lowercase_ = true;
  bool strip_accents_ = true;
  bool chinese_ = true;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_word_piece(const gguf::File& file,
                                                         const Vocab& vocab) {
  auto made = std::make_shared<WordPiece>();
  HOLDFAST_CHECKED(made->make(file, vocab));
  return std::shared_ptr<const Tokenizer>(std::move(made));
}

}  // namespace holdfast::text
