// Reads a vocab.txt. Source: BertTokenizer of src/transformers/models/bert/tokenization_bert.py
// (load_vocab, defaults).

#include "shared/huggingface/tokenizer_words.h"

#include <nlohmann/json.hpp>

#include "shared/gguf/parse.h"
#include "shared/huggingface/json_file.h"
#include "shared/text/utf8.h"

namespace holdfast::huggingface {
namespace {

using nlohmann::json;

constexpr std::size_t kLinesMax = 1 << 21;

Error invalid(const std::string& path, const std::string& what) {
  return {Errc::kFileInvalid, "read " + path + ": " + what};
}

/// Returns "[CLS]" of "[CLS]" or {"content": "[CLS]"}; the usual text if the settings do not say.
std::string special_of(const json& settings, const char* name, const char* usual) {
  const json value = settings.value(name, json());
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.value("content", json()).is_string()) return value["content"];
  return usual;
}

bool flag_of(const json& settings, const char* name, bool usual) {
  const auto at = settings.find(name);
  return at != settings.end() && at->is_boolean() ? at->get<bool>() : usual;
}

/// Reads tokens by line. A token in several lines gets the last one's id.
Result<json> read_lines(const std::string& path) {
  HOLDFAST_TRY(const std::string text, read_text(path, kTokenizerBytesMax));
  if (const auto bad = text::first_invalid_utf8(text)) {
    return invalid(path, "invalid UTF-8 at byte " + std::to_string(*bad));
  }
  json vocab = json::object();
  std::size_t line = 0;
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string token = text.substr(at, end - at);
    if (token.ends_with('\r')) token.pop_back();
    if (line >= kLinesMax) {
      return invalid(path, "it has more than " + std::to_string(kLinesMax) + " lines");
    }
    if (!token.empty()) vocab[token] = line;
    at = end + 1;
  }
  if (vocab.empty()) return invalid(path, "it has no tokens");
  return vocab;
}

}  // namespace

Result<nlohmann::json> words_to_tokenizer(const std::string& path, const nlohmann::json& settings) {
  HOLDFAST_TRY(const json vocab, read_lines(path));
  json added = json::array();
  const auto special = [&](const char* name, const char* usual) -> Result<std::string> {
    const std::string text = special_of(settings, name, usual);
    const auto at = vocab.find(text);
    if (at == vocab.end()) {
      return invalid(path, std::string(name) + " " + gguf::quoted(text) + " is in no line");
    }
    added.push_back({{"id", *at}, {"content", text}, {"special", true}});
    return text;
  };
  HOLDFAST_TRY(const std::string unknown, special("unk_token", "[UNK]"));
  HOLDFAST_TRY(const std::string first, special("cls_token", "[CLS]"));
  HOLDFAST_TRY(const std::string last, special("sep_token", "[SEP]"));
  // Not every vocabulary has these, and no text needs them.
  for (const auto& [name, usual] :
       {std::pair{"pad_token", "[PAD]"}, std::pair{"mask_token", "[MASK]"}}) {
    if (vocab.contains(special_of(settings, name, usual))) (void)special(name, usual);
  }
  const bool lowercase = flag_of(settings, "do_lower_case", true);
  const auto token = [](const std::string& text) {
    return json{{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
  };
  return json{
      {"added_tokens", added},
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"lowercase", lowercase},
        {"strip_accents", flag_of(settings, "strip_accents", lowercase)},
        {"handle_chinese_chars", flag_of(settings, "tokenize_chinese_chars", true)}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single",
         json::array({token(first), {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, token(last)})}}},
      {"model", {{"type", "WordPiece"}, {"unk_token", unknown}, {"vocab", vocab}}}};
}

}  // namespace holdfast::huggingface
