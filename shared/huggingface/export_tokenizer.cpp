// Converts GGUF keys to tokenizer.json and tokenizer_config.json.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "shared/gguf/parse.h"
#include "shared/huggingface/export.h"
#include "shared/huggingface/tokenizer_json_parts.h"
#include "shared/text/pretokenizer.h"
#include "shared/text/tokenizer.h"

namespace holdfast::huggingface {
namespace {

using nlohmann::json;

constexpr const char* kMeta = "\xE2\x96\x81";  // U+2581
/// Replaces \p{wspace} by \s, which means the same to the readers of these files.
std::string for_tokenizers(std::string_view pattern) {
  std::string out(pattern);
  for (const auto& [from, to] :
       {std::pair{"\\p{wspace}", "\\s"}, std::pair{"\\P{wspace}", "\\S"}}) {
    const std::string_view what = from;
    for (std::size_t at = 0; (at = out.find(what, at)) != std::string::npos; at += 2) {
      out.replace(at, what.size(), to);
    }
  }
  return out;
}

Result<json> byte_level_parts(const gguf::File& file, std::string_view pre) {
  std::vector<std::string_view> patterns;
  bool ignore_merges = false;
  if (pre == "patterns") {
    patterns =
        file.get_strings("tokenizer.holdfast.patterns").value_or(std::vector<std::string_view>());
    ignore_merges = file.get_bool("tokenizer.holdfast.ignore_merges").value_or(false);
  } else {
    patterns = text::pre_tokenizer_patterns(pre);
    if (patterns.empty()) {
      return unsupported(file, "pre-tokenizer \"" + std::string(pre) + "\" is not known");
    }
    ignore_merges = text::PreTokenizer::create(pre).value()->defaults().ignore_merges;
  }
  json steps = json::array();
  for (const std::string_view pattern : patterns) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", for_tokenizers(pattern)}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  const json bytes = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", false}};
  steps.push_back(bytes);
  const auto form = file.get_string("tokenizer.holdfast.form");
  json normalizer;
  if (form) normalizer = {{"type", form == "nfc" ? "NFC" : "NFKC"}};
  return json{{"ignore_merges", ignore_merges},
              {"normalizer", normalizer},
              {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}},
              {"decoder", bytes}};
}

json sentence_piece_parts(bool prefix) {
  json normalizers = json::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kMeta}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMeta}});
  json decoders =
      json::array({{{"type", "Replace"}, {"pattern", {{"String", kMeta}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}});
  if (prefix) {
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return {{"ignore_merges", false},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
          {"pre_tokenizer", nullptr},
          {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}}};
}

bool is_mergeable(std::int64_t kind) {
  return kind == kNormal || kind == kUser;
}

/// Returns the ids of the tokens that merges make or take.
std::unordered_map<std::string_view, std::size_t> mergeable_ids(const Tokens& tokens) {
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t i = 0; i < tokens.texts.size(); ++i) {
    if (is_mergeable(tokens.kinds[i])) ids.emplace(tokens.texts[i], i);
  }
  return ids;
}

/// Returns every merge of two tokens into one, the greatest score first.
std::vector<std::string> merges_of_scores(const gguf::File& file, const Tokens& tokens) {
  struct Merge {
    float score;
    std::size_t id;
    std::size_t left;
  };
  const std::vector<float> scores =
      file.get_floats("tokenizer.ggml.scores").value_or(std::vector<float>());
  const auto ids = mergeable_ids(tokens);
  std::vector<Merge> merges;
  for (std::size_t i = 0; i < std::min(tokens.texts.size(), scores.size()); ++i) {
    const std::string_view text = tokens.texts[i];
    if (!is_mergeable(tokens.kinds[i]) || text.size() > 512) continue;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      if (ids.contains(text.substr(0, cut)) && ids.contains(text.substr(cut))) {
        merges.push_back({scores[i], i, cut});
      }
    }
  }
  std::stable_sort(merges.begin(), merges.end(),
                   [](const Merge& a, const Merge& b) { return a.score > b.score; });
  std::vector<std::string> out;
  for (const Merge& m : merges) {
    const std::string text(tokens.texts[m.id]);
    out.push_back(text.substr(0, m.left) + " " + text.substr(m.left));
  }
  return out;
}

json added_tokens(const Tokens& tokens) {
  json out = json::array();
  for (std::size_t i = 0; i < tokens.texts.size(); ++i) {
    const std::int64_t kind = tokens.kinds[i];
    if (kind != kUnknown && kind != kControl && kind != kUser) continue;
    out.push_back({{"id", i},
                   {"content", tokens.texts[i]},
                   {"single_word", false},
                   {"lstrip", false},
                   {"rstrip", false},
                   {"normalized", false},
                   {"special", kind != kUser}});
  }
  return out;
}

std::string text_of_id(const gguf::File& file, const Tokens& tokens, const char* key) {
  const auto id = file.get_u64(key);
  return id && *id < tokens.texts.size() ? std::string(tokens.texts[*id]) : "";
}

/// Returns the tokens around a text: those that our own tokenizer of the file adds.
Result<json> post_processor(const gguf::File& file, const Tokens& tokens) {
  HOLDFAST_TRY(const auto tokenizer, text::Tokenizer::load(file));
  HOLDFAST_TRY(const std::vector<text::TokenId> around, tokenizer->encode("", {}));
  json single = json::array();
  json special = json::object();
  const auto add = [&](text::TokenId id) {
    const std::string text(tokens.texts[static_cast<std::size_t>(id)]);
    single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    special[text] = {{"id", text}, {"ids", json::array({id})}, {"tokens", json::array({text})}};
  };
  const bool begins = !around.empty() && around.front() == tokenizer->bos() &&
                      (around.size() > 1 || tokenizer->bos() != tokenizer->eos() ||
                       file.get_bool("tokenizer.ggml.add_bos_token").value_or(false));
  if (begins) add(around.front());
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (around.size() > (begins ? 1u : 0u)) add(around.back());
  return json{{"type", "TemplateProcessing"},
              {"single", single},
              {"pair", single},
              {"special_tokens", special}};
}

json document(const json& added, const json& parts, const json& around, json model) {
  return json{{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", added},
              {"normalizer", parts["normalizer"]},
              {"pre_tokenizer", parts["pre_tokenizer"]},
              {"post_processor", around},
              {"decoder", parts["decoder"]},
              {"model", std::move(model)}};
}

/// Returns the merges that the file lists, or those that its scores mean.
std::vector<std::string> merges_of(const gguf::File& file, const Tokens& tokens) {
  const auto listed = file.get_strings("tokenizer.ggml.merges");
  if (!listed) return merges_of_scores(file, tokens);
  return {listed->begin(), listed->end()};
}

/// Returns the ids by their texts. With words of `bytes` special tokens are not among them.
json bpe_vocab(const Tokens& tokens, bool bytes) {
  json vocab = json::object();
  for (std::size_t i = 0; i < tokens.texts.size(); ++i) {
    const std::int64_t kind = tokens.kinds[i];
    const bool outside = bytes && (kind == kControl || kind == kUser || kind == kUnknown);
    if (kind != kUnused && !outside) vocab[std::string(tokens.texts[i])] = i;
  }
  return vocab;
}

Result<json> bpe_document(const gguf::File& file, const Tokens& tokens, const json& around,
                          bool bytes) {
  json parts =
      sentence_piece_parts(file.get_bool("tokenizer.ggml.add_space_prefix").value_or(true));
  if (bytes) {
    HOLDFAST_TRY(parts,
                 byte_level_parts(file, file.get_string("tokenizer.ggml.pre").value_or("default")));
  }
  const json vocab = bpe_vocab(tokens, bytes);
  const std::vector<std::string> merges = merges_of(file, tokens);
  const std::string unknown = text_of_id(file, tokens, "tokenizer.ggml.unknown_token_id");
  return document(added_tokens(tokens), parts, around,
                  {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", bytes || unknown.empty() ? json() : json(unknown)},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", !bytes},
                   {"byte_fallback", !bytes},
                   {"ignore_merges", parts["ignore_merges"]},
                   {"vocab", vocab},
                   {"merges", merges}});
}

}  // namespace

Result<Tokens> read_tokens(const gguf::File& file) {
  Tokens tokens;
  auto texts = file.get_strings("tokenizer.ggml.tokens");
  if (!texts || texts->empty()) return unsupported(file, "there is no tokenizer");
  tokens.texts = std::move(*texts);
  tokens.kinds = file.get_ints("tokenizer.ggml.token_type")
                     .value_or(std::vector<std::int64_t>(tokens.texts.size(), kNormal));
  tokens.kinds.resize(tokens.texts.size(), kNormal);
  return tokens;
}

Result<nlohmann::json> keys_to_tokenizer(const gguf::File& file) {
  HOLDFAST_TRY(const Tokens tokens, read_tokens(file));
  const std::string_view model = file.get_string("tokenizer.ggml.model").value_or("");
  if (model != "gpt2" && model != "llama" && model != "bert" && model != "t5") {
    return unsupported(file, "a tokenizer of kind " + gguf::quoted(model) +
                                 " cannot be written as tokenizer.json");
  }
  HOLDFAST_TRY(const json around, post_processor(file, tokens));
  if (model == "bert" || model == "t5") {
    HOLDFAST_TRY(const json made,
                 model == "bert" ? word_piece_parts(file, tokens) : unigram_parts(file, tokens));
    return document(added_tokens(tokens), made, around, made["model"]);
  }
  return bpe_document(file, tokens, around, model == "gpt2");
}

nlohmann::json keys_to_tokenizer_config(const gguf::File& file) {
  json out = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  const auto tokens = read_tokens(file);
  if (!tokens) return out;
  for (const auto& [key, name] : {std::pair{"tokenizer.ggml.bos_token_id", "bos_token"},
                                  std::pair{"tokenizer.ggml.eos_token_id", "eos_token"},
                                  std::pair{"tokenizer.ggml.unknown_token_id", "unk_token"},
                                  std::pair{"tokenizer.ggml.cls_token_id", "cls_token"},
                                  std::pair{"tokenizer.ggml.seperator_token_id", "sep_token"},
                                  std::pair{"tokenizer.ggml.mask_token_id", "mask_token"},
                                  std::pair{"tokenizer.ggml.padding_token_id", "pad_token"}}) {
    const std::string text = text_of_id(file, tokens.value(), key);
    if (!text.empty()) out[name] = text;
  }
  const auto chat = file.get_string("tokenizer.chat_template");
  if (chat) out["chat_template"] = *chat;
  return out;
}

}  // namespace holdfast::huggingface
