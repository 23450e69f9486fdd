// Writes WordPiece and Unigram tokenizers as tokenizer.json. Source: the converters of BERT's and
// T5's tokenizers in src/transformers/convert_slow_tokenizer.py.

#include "shared/huggingface/tokenizer_json_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shared/gguf/parse.h"

namespace holdfast::huggingface {
namespace {

using nlohmann::json;

constexpr std::string_view kMeta = "\xE2\x96\x81";  // U+2581

std::string to_base64(const std::vector<std::int64_t>& bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      const std::int64_t byte = i + k < bytes.size() ? bytes[i + k] : 0;
      bits = bits << 8 | (static_cast<std::uint32_t>(byte) & 255);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += i + k <= bytes.size() ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

/// Returns the unknown token, by default with the id of the first models.
std::size_t unknown_of(const gguf::File& file, std::size_t usual) {
  const auto id = file.get_u64("tokenizer.ggml.unknown_token_id");
  return id ? static_cast<std::size_t>(*id) : usual;
}

bool is_special(std::int64_t kind) {
  return kind == kControl || kind == kUnknown || kind == kUser;
}

}  // namespace

Error unsupported(const gguf::File& file, const std::string& what) {
  return {Errc::kUnsupported, "convert " + std::string(file.name()) + ": " + what};
}

namespace {

/// Returns a word piece as a tokenizer.json spells it: those inside a word begin with "##".
std::string word_piece_text(std::string_view text, std::int64_t kind) {
  if (is_special(kind)) return std::string(text);
  if (text.starts_with(kMeta)) return std::string(text.substr(kMeta.size()));
  // Tokens like [unused1] have neither mark in files of other converters.
  const bool bare = text.starts_with('[') && text.ends_with(']');
  return (bare ? "" : "##") + std::string(text);
}

}  // namespace

Result<nlohmann::json> word_piece_parts(const gguf::File& file, const Tokens& tokens) {
  json vocab = json::object();
  for (std::size_t i = 0; i < tokens.texts.size(); ++i) {
    if (tokens.kinds[i] == kUnused) continue;
    const std::string spelled = word_piece_text(tokens.texts[i], tokens.kinds[i]);
    if (vocab.contains(spelled)) {
      return unsupported(file, "tokens " + std::to_string(i) + " and " + vocab[spelled].dump() +
                                   " are both " + gguf::quoted(spelled) + " in a tokenizer.json");
    }
    vocab[spelled] = i;
  }
  const std::size_t unknown = unknown_of(file, 100);
  if (unknown >= tokens.texts.size()) return unsupported(file, "there is no unknown token");
  const auto flag = [&](const char* key) { return file.get_bool(key).value_or(true); };
  return json{{"normalizer",
               {{"type", "BertNormalizer"},
                {"clean_text", true},
                {"handle_chinese_chars", flag("tokenizer.holdfast.chinese")},
                {"strip_accents", flag("tokenizer.holdfast.strip_accents")},
                {"lowercase", flag("tokenizer.holdfast.lowercase")}}},
              {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
              {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
              {"model",
               {{"type", "WordPiece"},
                {"unk_token", tokens.texts[unknown]},
                {"continuing_subword_prefix", "##"},
                {"max_input_chars_per_word", 100},
                {"vocab", vocab}}}};
}

namespace {

/// Returns [[text, score], …]. A list has no holes, and rows after the last token are not tokens.
Result<json> unigram_vocab(const gguf::File& file, const Tokens& tokens) {
  const auto scores = file.get_floats("tokenizer.ggml.scores");
  if (!scores || scores->size() < tokens.texts.size()) {
    return unsupported(file, "there is no score for each token");
  }
  std::size_t count = tokens.texts.size();
  while (count > 0 && tokens.kinds[count - 1] == kUnused) --count;
  json vocab = json::array();
  for (std::size_t i = 0; i < count; ++i) {
    if (tokens.kinds[i] == kUnused) {
      return unsupported(file, "token " + std::to_string(i) +
                                   " is unused, which a Unigram tokenizer.json has no place for");
    }
    vocab.push_back(json::array({tokens.texts[i], static_cast<double>((*scores)[i])}));
  }
  return vocab;
}

bool joins_spaces(const gguf::File& file) {
  return file.get_bool("tokenizer.ggml.remove_extra_whitespaces").value_or(false);
}

/// Returns the normalizer; null if texts stay as they are.
Result<json> unigram_normalizer(const gguf::File& file) {
  json steps = json::array();
  const auto form = file.get_string("tokenizer.holdfast.form");
  if (form) steps.push_back({{"type", form == "nfc" ? "NFC" : "NFKC"}});
  const auto charsmap = file.get_ints("tokenizer.ggml.precompiled_charsmap");
  if (charsmap && !charsmap->empty()) {
    if (!joins_spaces(file)) {
      return unsupported(file, "a character map without remove_extra_whitespaces is not supported");
    }
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(*charsmap)}});
  }
  return steps.empty() ? json() : json{{"type", "Sequence"}, {"normalizers", steps}};
}

}  // namespace

Result<nlohmann::json> unigram_parts(const gguf::File& file, const Tokens& tokens) {
  HOLDFAST_TRY(const json vocab, unigram_vocab(file, tokens));
  HOLDFAST_TRY(const json normalizer, unigram_normalizer(file));
  const bool bytes =
      std::find(tokens.kinds.begin(), tokens.kinds.end(), kByte) != tokens.kinds.end();
  const bool prefix = file.get_bool("tokenizer.ggml.add_space_prefix").value_or(true);
  json splits = json::array();
  if (joins_spaces(file)) splits.push_back({{"type", "WhitespaceSplit"}});
  const json meta = {{"type", "Metaspace"},
                     {"replacement", kMeta},
                     {"prepend_scheme", prefix ? "always" : "never"},
                     {"split", true}};
  splits.push_back(meta);
  const std::size_t unknown = unknown_of(file, 2);
  return json{{"normalizer", normalizer},
              {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", splits}}},
              {"decoder", meta},
              {"model",
               {{"type", "Unigram"},
                {"unk_id", unknown < vocab.size() ? json(unknown) : json()},
                {"byte_fallback", bytes},
                {"vocab", vocab}}}};
}

}  // namespace holdfast::huggingface
