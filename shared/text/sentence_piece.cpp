// SentencePiece BPE ("llama"): neighbours merge into the token of the highest score, characters
// that are not tokens become bytes. The file spells a space as U+2581; here it is a space again.
// "gemma4" is the same with a list of merges, and separates lines from the text between them.

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>

#include "shared/text/tokenizer_base.h"
#include "shared/text/utf8.h"
#include "shared/text/word_coder.h"

namespace holdfast::text {
namespace {

constexpr std::string_view kMeta = "\xE2\x96\x81";  // U+2581
// Merging never makes longer tokens. Bounds the work that a hostile vocabulary can cause.
constexpr std::size_t kLongestMerged = 512;

void spaces_for_meta(std::string& text) {
  std::size_t at = text.find(kMeta);
  if (at == std::string::npos) return;
  std::size_t to = at;
  while (at < text.size()) {
    if (text.compare(at, kMeta.size(), kMeta) == 0) {
      text[to++] = ' ';
      at += kMeta.size();
    } else {
      text[to++] = text[at++];
    }
  }
  text.resize(to);
}

// Returns the symbol of a character that is not a token; the next function is the inverse.
TokenId symbol_of_unknown(char32_t point) {
  return -1 - static_cast<TokenId>(point);
}
char32_t point_of_symbol(TokenId symbol) {
  return static_cast<char32_t>(-1 - symbol);
}

class SentencePiece final : public TokenizerBase {
 public:
  Result<void> make(const gguf::File& file, const Vocab& vocab) {
    const std::size_t count = vocab.texts.size();
    lines_ = vocab.model == "gemma4";
    std::vector<std::string> decoded_tokens(count);
    std::vector<std::string> merged(count);  // empty: not made by merging
    TokenMap words(count);
    for (std::size_t i = 0; i < count; ++i) {
      decoded_tokens[i] = vocab.texts[i];
      const TokenKind kind = vocab.kinds[i];
      if (kind == TokenKind::kByte) {
        decoded_tokens[i].assign(1, static_cast<char>(byte_of_token_text(vocab.texts[i])));
      }
      if (kind == TokenKind::kByte || kind == TokenKind::kControl || kind == TokenKind::kUnknown) {
        continue;
      }
      spaces_for_meta(decoded_tokens[i]);
      const bool fits = !decoded_tokens[i].empty() && decoded_tokens[i].size() <= kLongestMerged &&
                        vocab.texts[i].find(' ') == std::string_view::npos &&
                        !first_invalid_utf8(decoded_tokens[i]);
      if (fits && words.insert(decoded_tokens[i], static_cast<TokenId>(i)))
        merged[i] = decoded_tokens[i];
    }
    for (char32_t c = 0; c < 128; ++c) ascii_[c] = symbol(words, c);
    MergeTable merges = read_merges(vocab, merged, words);
    if (lines_ || file.has("tokenizer.ggml.merges")) {
      HOLDFAST_TRY(merges, listed_merges(file, vocab, words));
    }
    coder_ = WordCoder(std::move(words), std::move(merges), count, false);
    read_bytes(vocab);
    return set_up(file, vocab, decoded_tokens, vocab.add_bos);
  }

 protected:
  Result<void> encode_fragment(std::string_view fragment, bool after_special,
                               Work& work) const override {
    std::string& text = work.text;
    text.assign(after_special && adds_space_prefix() ? " " : "");
    text.append(fragment);
    spaces_for_meta(text);
    if (!lines_) {
      encode_part(text, work);
      return {};
    }
    for (std::string_view rest = text; !rest.empty();) {
      const bool between = rest.front() == '\n';
      const std::size_t end = between ? rest.find_first_not_of('\n') : rest.find('\n');
      const std::string_view part = rest.substr(0, end);
      const TokenId whole = between ? coder_.words().find(part) : -1;
      if (whole >= 0) {
        work.ids.push_back(whole);
      } else {
        encode_part(part, work);
      }
      rest.remove_prefix(part.size());
    }
    return {};
  }

 private:
  void encode_part(std::string_view text, Work& work) const {
    split(text, work.ends);
    std::uint32_t begin = 0;
    for (const std::uint32_t end : work.ends) {
      encode_word(text.substr(begin, end - begin), work);
      begin = end;
    }
  }

  static TokenId symbol(const TokenMap& words, char32_t point) {
    std::string spelt;
    append_utf8(point, spelt);
    const TokenId id = words.find(spelt);
    return id >= 0 ? id : symbol_of_unknown(point);
  }

  static Result<MergeTable> listed_merges(const gguf::File& file, const Vocab& vocab,
                                          const TokenMap& words);
  MergeTable read_merges(const Vocab& vocab, const std::vector<std::string>& merged,
                         const TokenMap& words);
  static void insert_halves(std::string_view text, MergeTable::Merge merge, const TokenMap& words,
                            MergeTable& table);
  void note_before_spaces(std::string_view text);
  void read_bytes(const Vocab& vocab);
  void split(std::string_view text, std::vector<std::uint32_t>& ends) const;
  void encode_word(std::string_view word, Work& work) const;
  void append_unknown(char32_t point, std::vector<TokenId>& ids) const;

  WordCoder coder_;
  std::array<TokenId, 128> ascii_{};
  std::array<TokenId, 256> byte_ids_{};
  TokenId unknown_ = -1;
  bool lines_ = false;
  std::vector<char32_t> before_space_;  // sorted: characters before a space in some token
};

// Inserts every way to make a token of two symbols.
void SentencePiece::insert_halves(std::string_view text, MergeTable::Merge merge,
                                  const TokenMap& words, MergeTable& table) {
  const auto half = [&words](std::string_view part) -> std::pair<bool, TokenId> {
    const Char first = decode_char(part.data());
    if (first.bytes == part.size()) return {true, symbol(words, first.point)};
    const TokenId id = words.find(part);
    return {id >= 0, id};
  };
  for (std::size_t at = 1; at < text.size(); ++at) words.fetch(text.substr(0, at));
  for (std::size_t at = decode_char(text.data()).bytes; at < text.size();
       at += decode_char(text.data() + at).bytes) {
    const auto [left_ok, left] = half(text.substr(0, at));
    if (!left_ok) continue;
    const auto [right_ok, right] = half(text.substr(at));
    if (right_ok) table.insert(left, right, merge);
  }
}

// Notes the characters before a space inside a token.
void SentencePiece::note_before_spaces(std::string_view text) {
  Char before = decode_char(text.data());
  for (std::size_t at = before.bytes; at < text.size(); at += before.bytes) {
    if (text[at] == ' ' && before.point != ' ') before_space_.push_back(before.point);
    before = decode_char(text.data() + at);
  }
}

// Returns every way to make a token of two symbols, ranked by the token's score.
MergeTable SentencePiece::read_merges(const Vocab& vocab, const std::vector<std::string>& merged,
                                      const TokenMap& words) {
  std::vector<float> scores = vocab.scores;
  if (scores.empty()) scores.push_back(0);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  MergeTable table(merged.size() * 2);
  for (std::size_t i = 0; i < merged.size(); ++i) {
    if (merged[i].empty()) continue;
    const float score = vocab.scores.empty() ? 0 : vocab.scores[i];
    const auto position = std::lower_bound(scores.begin(), scores.end(), score, std::greater<>());
    const auto rank = static_cast<std::uint32_t>(position - scores.begin());
    insert_halves(merged[i], {rank, static_cast<TokenId>(i)}, words, table);
    note_before_spaces(merged[i]);
  }
  std::sort(before_space_.begin(), before_space_.end());
  before_space_.erase(std::unique(before_space_.begin(), before_space_.end()), before_space_.end());
  return table;
}

std::set<std::string_view> special_texts(const Vocab& vocab) {
  std::set<std::string_view> special;
  for (std::size_t i = 0; i < vocab.texts.size(); ++i) {
    const TokenKind kind = vocab.kinds[i];
    if (kind == TokenKind::kControl || kind == TokenKind::kUnknown) special.insert(vocab.texts[i]);
  }
  return special;
}

bool contains_any(const std::set<std::string_view>& texts,
                  std::initializer_list<std::string_view> candidates) {
  return std::any_of(candidates.begin(), candidates.end(),
                     [&](std::string_view text) { return texts.contains(text); });
}

// Returns the merges of a file from a tokenizer.json, or of "gemma4", which lists them: exactly
// those, in that order. None makes a special token: plain text never becomes one.
Result<MergeTable> SentencePiece::listed_merges(const gguf::File& file, const Vocab& vocab,
                                                const TokenMap& words) {
  constexpr std::string_view kMerges = "tokenizer.ggml.merges";
  const auto merges = file.get_strings(kMerges);
  if (!merges) return vocab_error(file, kMerges, "expected an array of strings");
  const std::set<std::string_view> special = special_texts(vocab);
  MergeTable table(merges->size());
  for (std::size_t i = 0; i < merges->size(); ++i) {
    const std::size_t space = (*merges)[i].find(' ', 1);
    const auto broken = [&](const std::string& cause) {
      return vocab_error(file, kMerges, "entry " + std::to_string(i) + " " + cause);
    };
    if (space == std::string_view::npos) return broken("has no space; expected two tokens");
    std::string left((*merges)[i].substr(0, space));
    std::string right((*merges)[i].substr(space + 1));
    spaces_for_meta(left);
    spaces_for_meta(right);
    const std::string made = left + right;
    if (contains_any(special, {left, right, made})) continue;
    const TokenId ids[] = {words.find(left), words.find(right), words.find(made)};
    if (ids[0] < 0 || ids[1] < 0) return broken("names a token that is not in the vocabulary");
    if (ids[2] < 0) return broken("makes a token that is not in the vocabulary");
    table.insert(ids[0], ids[1], {static_cast<std::uint32_t>(i), ids[2]});
  }
  return table;
}

void SentencePiece::read_bytes(const Vocab& vocab) {
  unknown_ = vocab.unknown;
  byte_ids_.fill(-1);
  for (std::size_t i = 0; i < vocab.texts.size(); ++i) {
    const int byte = byte_of_token_text(vocab.texts[i]);
    if (byte < 0) continue;
    TokenId& id = byte_ids_[static_cast<std::size_t>(byte)];
    if (id < 0 || vocab.kinds[i] == TokenKind::kByte) id = static_cast<TokenId>(i);
  }
}

// Cuts where no token crosses: before a (run of) space, after any character that precedes a space
// in no token. Merging each part alone gives the same result as merging the whole.
void SentencePiece::split(std::string_view text, std::vector<std::uint32_t>& ends) const {
  ends.clear();
  std::size_t at = text.find(' ', 1);
  for (; at != std::string_view::npos; at = text.find(' ', at + 1)) {
    if (text[at - 1] == ' ') continue;
    if (!before_space_.empty()) {
      std::size_t begin = at - 1;
      while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
      const char32_t point = decode_char(text.data() + begin).point;
      if (std::binary_search(before_space_.begin(), before_space_.end(), point)) continue;
    }
    ends.push_back(static_cast<std::uint32_t>(at));
  }
  if (!text.empty()) ends.push_back(static_cast<std::uint32_t>(text.size()));
}

void SentencePiece::encode_word(std::string_view word, Work& work) const {
  const std::size_t first = work.ids.size();
  const auto characters = [this](std::string_view text, std::vector<TokenId>& out) {
    for (std::size_t at = 0; at < text.size();) {
      const Char c = decode_char(text.data() + at);
      if (c.point < 128) {
        out.push_back(ascii_[c.point]);
      } else {
        const TokenId id = coder_.words().find(text.substr(at, c.bytes));
        out.push_back(id >= 0 ? id : symbol_of_unknown(c.point));
      }
      at += c.bytes;
    }
  };
  coder_.encode(word, characters, work.ids, work.scratch);
  const auto lost = std::find_if(work.ids.begin() + static_cast<std::ptrdiff_t>(first),
                                 work.ids.end(), [](TokenId id) { return id < 0; });
  if (lost == work.ids.end()) return;
  const std::vector<TokenId> rest(lost, work.ids.end());
  work.ids.erase(lost, work.ids.end());
  for (const TokenId id : rest) {
    if (id >= 0) {
      work.ids.push_back(id);
    } else {
      append_unknown(point_of_symbol(id), work.ids);
    }
  }
}

void SentencePiece::append_unknown(char32_t point, std::vector<TokenId>& ids) const {
  std::string bytes;
  append_utf8(point, bytes);
  if (point == ' ') bytes = kMeta;
  const std::size_t first = ids.size();
  for (const char c : bytes) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(c)];
    if (id < 0) {  // no byte fallback in this vocabulary: one unknown token, or nothing
      ids.resize(first);
      if (unknown_ >= 0) ids.push_back(unknown_);
      return;
    }
    ids.push_back(id);
  }
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_sentence_piece(const gguf::File& file,
                                                             const Vocab& vocab) {
  auto made = std::make_shared<SentencePiece>();
  HOLDFAST_CHECKED(made->make(file, vocab));
  return std::shared_ptr<const Tokenizer>(std::move(made));
}

}  // namespace holdfast::text
