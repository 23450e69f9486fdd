// Keys of GGUF to tokenizer.json and tokenizer_config.json.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "shared/hf/export.h"
#include "shared/text/pretokenizer.h"

namespace holdfast::hf {
namespace {

using nlohmann::json;

constexpr const char* kMeta = "\xE2\x96\x81";  // U+2581
enum Kind : std::int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUser = 4, kUnused = 5 };

struct Tokens {
  std::vector<std::string_view> texts;
  std::vector<std::int64_t> kinds;
};

Error unsupported(const gguf::File& file, const std::string& what) {
  return {Errc::kUnsupported, "convert " + std::string(file.name()) + ": " + what};
}

/// \p{wspace} is \s where these files are read.
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

/// Every way to make a token from two, the greatest score first.
std::vector<std::string> merges_of_scores(const gguf::File& file, const Tokens& tokens) {
  struct Merge {
    float score;
    std::size_t id;
    std::size_t left;
  };
  const std::vector<float> scores =
      file.get_floats("tokenizer.ggml.scores").value_or(std::vector<float>());
  std::unordered_map<std::string_view, std::size_t> ids;
  const auto takes_part = [&](std::size_t i) {
    return tokens.kinds[i] == kNormal || tokens.kinds[i] == kUser;
  };
  for (std::size_t i = 0; i < tokens.texts.size(); ++i) {
    if (takes_part(i)) ids.emplace(tokens.texts[i], i);
  }
  std::vector<Merge> merges;
  for (std::size_t i = 0; i < tokens.texts.size() && i < scores.size(); ++i) {
    const std::string_view text = tokens.texts[i];
    if (!takes_part(i) || text.size() > 512) continue;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      if (ids.count(text.substr(0, cut)) > 0 && ids.count(text.substr(cut)) > 0) {
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

/// What stands around a text: BOS and EOS as the file adds them.
json post_processor(const gguf::File& file, const Tokens& tokens) {
  json single = json::array();
  json special = json::object();
  const auto add = [&](const char* flag, const char* key, bool fallback) {
    const std::string text = text_of_id(file, tokens, key);
    if (!file.get_bool(flag).value_or(fallback) || text.empty()) return;
    single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    special[text] = {
        {"id", text}, {"ids", json::array({*file.get_u64(key)})}, {"tokens", json::array({text})}};
  };
  const bool sentence_piece = file.get_string("tokenizer.ggml.model") == "llama";
  add("tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", sentence_piece);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add("tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", false);
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", single},
          {"special_tokens", special}};
}

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

}  // namespace

Result<nlohmann::json> keys_to_tokenizer(const gguf::File& file) {
  HF_TRY(const Tokens tokens, read_tokens(file));
  const std::string_view model = file.get_string("tokenizer.ggml.model").value_or("");
  if (model != "gpt2" && model != "llama") {
    return unsupported(file, "a tokenizer of kind \"" + std::string(model) +
                                 "\" cannot be written as tokenizer.json yet");
  }
  const bool bytes = model == "gpt2";
  json parts =
      sentence_piece_parts(file.get_bool("tokenizer.ggml.add_space_prefix").value_or(true));
  if (bytes) {
    HF_TRY(parts,
           byte_level_parts(file, file.get_string("tokenizer.ggml.pre").value_or("default")));
  }
  std::vector<std::string> merges;
  if (const auto listed = file.get_strings("tokenizer.ggml.merges")) {
    merges.assign(listed->begin(), listed->end());
  } else {
    merges = merges_of_scores(file, tokens);
  }
  json vocab = json::object();
  for (std::size_t i = 0; i < tokens.texts.size(); ++i) {
    const std::int64_t kind = tokens.kinds[i];
    const bool outside = bytes && (kind == kControl || kind == kUser || kind == kUnknown);
    if (kind != kUnused && !outside) vocab[std::string(tokens.texts[i])] = i;
  }
  const std::string unknown = text_of_id(file, tokens, "tokenizer.ggml.unknown_token_id");
  return json{{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", added_tokens(tokens)},
              {"normalizer", parts["normalizer"]},
              {"pre_tokenizer", parts["pre_tokenizer"]},
              {"post_processor", post_processor(file, tokens)},
              {"decoder", parts["decoder"]},
              {"model",
               {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", bytes || unknown.empty() ? json() : json(unknown)},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", !bytes},
                {"byte_fallback", !bytes},
                {"ignore_merges", parts["ignore_merges"]},
                {"vocab", vocab},
                {"merges", merges}}}};
}

nlohmann::json keys_to_tokenizer_config(const gguf::File& file) {
  json out = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  const auto tokens = read_tokens(file);
  if (!tokens) return out;
  for (const auto& [key, name] : {std::pair{"tokenizer.ggml.bos_token_id", "bos_token"},
                                  std::pair{"tokenizer.ggml.eos_token_id", "eos_token"},
                                  std::pair{"tokenizer.ggml.padding_token_id", "pad_token"}}) {
    const std::string text = text_of_id(file, tokens.value(), key);
    if (!text.empty()) out[name] = text;
  }
  const auto chat = file.get_string("tokenizer.chat_template");
  if (chat) out["chat_template"] = *chat;
  return out;
}

}  // namespace holdfast::hf
