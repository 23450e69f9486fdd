// Byte-level BPE ("gpt2"). The file spells bytes in GPT-2's alphabet of printable characters; all
// work here is done on the bytes themselves.

#include <array>
#include <optional>

#include "shared/text/pretokenizer.h"
#include "shared/text/tokenizer_base.h"
#include "shared/text/utf8.h"
#include "shared/text/word_coder.h"

namespace holdfast::text {
namespace {

// The character of each byte (source: bytes_to_unicode in GPT-2's encoder.py): itself where that is
// printable Latin-1, else the next free one from U+0100 on.
struct Alphabet {
  std::array<char32_t, 256> point_of_byte{};
  std::array<std::int16_t, 512> byte_of_point{};

  Alphabet() {
    byte_of_point.fill(-1);
    char32_t free = 256;
    for (std::uint32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      point_of_byte[b] = printable ? b : free++;
      byte_of_point[point_of_byte[b]] = static_cast<std::int16_t>(b);
    }
  }
  // Returns nullopt if a character is not in the alphabet (added tokens are spelt literally).
  std::optional<std::string> decode(std::string_view text) const {
    std::string bytes;
    while (!text.empty()) {
      const std::uint32_t length = utf8_length_at(text);
      if (length == 0) return std::nullopt;
      const char32_t point = decode_char(text.data()).point;
      if (point >= byte_of_point.size() || byte_of_point[point] < 0) return std::nullopt;
      bytes.push_back(static_cast<char>(byte_of_point[point]));
      text.remove_prefix(length);
    }
    return bytes;
  }
};

const Alphabet& alphabet() {
  static const Alphabet made;
  return made;
}

bool is_plain(TokenKind kind) {
  return kind != TokenKind::kControl && kind != TokenKind::kUnknown &&
         kind != TokenKind::kUserDefined;
}

TokenMap map_texts(const Vocab& vocab) {
  TokenMap map(vocab.texts.size());
  for (std::size_t i = 0; i < vocab.texts.size(); ++i) {
    if (!vocab.texts[i].empty()) map.insert(vocab.texts[i], static_cast<TokenId>(i));
  }
  return map;
}

Result<MergeTable> read_merges(const gguf::File& file, const TokenMap& texts) {
  constexpr std::string_view kMerges = "tokenizer.ggml.merges";
  const auto merges = file.get_strings(kMerges);
  if (!merges) return vocab_error(file, kMerges, "expected an array of strings");
  MergeTable table(merges->size());
  std::string joined;
  for (std::size_t i = 0; i < merges->size(); ++i) {
    const std::string_view merge = (*merges)[i];
    const std::size_t space = merge.find(' ', 1);
    const auto broken = [&](const std::string& cause) {
      return vocab_error(file, kMerges, "entry " + std::to_string(i) + " " + cause);
    };
    if (space == std::string_view::npos) return broken("has no space; expected two tokens");
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    const TokenId ids[] = {texts.find(left), texts.find(right), texts.find(joined)};
    if (ids[0] < 0 || ids[1] < 0) return broken("names a token that is not in the vocabulary");
    if (ids[2] < 0) return broken("makes a token that is not in the vocabulary");
    table.insert(ids[0], ids[1], {static_cast<std::uint32_t>(i), ids[2]});
  }
  return table;
}

/// Makes the pre-tokenizer of the file's own patterns ("patterns", from a tokenizer.json) or of its
/// name; for an unknown name the default one, with a warning.
Result<std::unique_ptr<const PreTokenizer>> make_pre(const gguf::File& file, const Vocab& vocab) {
  if (vocab.pre == "patterns") {
    const auto patterns = file.get_strings("tokenizer.holdfast.patterns");
    if (!patterns) {
      return vocab_error(file, "tokenizer.holdfast.patterns", "expected an array of strings");
    }
    const bool ignore = file.get_bool("tokenizer.holdfast.ignore_merges").value_or(false);
    return PreTokenizer::create_from(*patterns, {.ignore_merges = ignore});
  }
  auto made = PreTokenizer::create(vocab.pre);
  if (made || made.error().code != Errc::kUnsupported) return made;
  return PreTokenizer::create("default");
}

/// Returns an empty text if the name is known.
std::string pre_warning(const Vocab& vocab) {
  if (vocab.pre == "patterns" || PreTokenizer::create(vocab.pre)) return "";
  return "pre-tokenizer '" + std::string(vocab.pre.substr(0, 80)) +
         "' is not known here: text is split as by 'default', so tokens may "
         "differ from the model's "
         "own and answers may be worse";
}

class Bpe final : public TokenizerBase {
 public:
  Result<void> make(const gguf::File& file, const Vocab& vocab) {
    HOLDFAST_TRY(pre_, make_pre(file, vocab));
    const TokenMap texts = map_texts(vocab);
    HOLDFAST_TRY(MergeTable merges, read_merges(file, texts));
    std::vector<std::string> decoded_tokens(vocab.texts.size());
    TokenMap words(vocab.texts.size());
    for (std::size_t i = 0; i < vocab.texts.size(); ++i) {
      decoded_tokens[i] = vocab.texts[i];
      if (vocab.kinds[i] == TokenKind::kByte) {
        decoded_tokens[i].assign(1, static_cast<char>(byte_of_token_text(vocab.texts[i])));
        continue;
      }
      if (!is_plain(vocab.kinds[i])) continue;
      auto bytes = alphabet().decode(vocab.texts[i]);
      if (!bytes || bytes->empty()) continue;
      words.insert(*bytes, static_cast<TokenId>(i));
      decoded_tokens[i] = std::move(*bytes);
    }
    for (std::uint32_t b = 0; b < 256; ++b) {
      std::string spelt;
      append_utf8(alphabet().point_of_byte[b], spelt);
      const TokenId id = texts.find(spelt);
      byte_ids_[b] = id >= 0 ? id : -1 - static_cast<TokenId>(b);
      missing_bytes_ = missing_bytes_ || id < 0;
    }
    const PreDefaults defaults = pre_->defaults();
    coder_ =
        WordCoder(std::move(words), std::move(merges), vocab.texts.size(), defaults.ignore_merges);
    const bool add_bos = says_add_bos(file) ? vocab.add_bos : defaults.add_bos && vocab.bos >= 0;
    HOLDFAST_CHECKED(set_up(file, vocab, decoded_tokens, add_bos));
    set_warning(pre_warning(vocab));
    return {};
  }

 protected:
  Result<void> encode_fragment(std::string_view fragment, bool, Work& work) const override {
    work.ends.clear();
    HOLDFAST_CHECKED(pre_->split(fragment, work.ends));
    const auto bytes_of = [this](std::string_view word, std::vector<TokenId>& out) {
      for (const char c : word) out.push_back(byte_ids_[static_cast<unsigned char>(c)]);
    };
    std::uint32_t begin = 0;
    for (const std::uint32_t end : work.ends) {
      coder_.encode(fragment.substr(begin, end - begin), bytes_of, work.ids, work.scratch);
      begin = end;
    }
    // A byte that the vocabulary lacks has no id: left out, like in the models' own tokenizers.
    if (missing_bytes_) {
      std::erase_if(work.ids, [](TokenId id) { return id < 0; });
    }
    return {};
  }

 private:
  std::unique_ptr<const PreTokenizer> pre_;
  WordCoder coder_;
  std::array<TokenId, 256> byte_ids_{};
  bool missing_bytes_ = false;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_bpe(const gguf::File& file, const Vocab& vocab) {
  auto bpe = std::make_shared<Bpe>();
  HOLDFAST_CHECKED(bpe->make(file, vocab));
  return std::shared_ptr<const Tokenizer>(std::move(bpe));
}

}  // namespace holdfast::text
