// Goal: every kind of tokenizer.json becomes the tokenizer that it describes; a broken one is
// refused with the reason. Method: small vocabularies of each kind written here, with ids worked
// out by hand from the definition of the kind; then one broken part at a time.

#include "shared/huggingface/tokenizer_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "shared/huggingface/export.h"
#include "shared/text/tokenizer.h"
#include "tests/huggingface/temp_folder.h"

namespace holdfast::huggingface::tokenizer_json_test {
namespace {

using nlohmann::json;
using Ids = std::vector<text::TokenId>;
using Made = Result<std::shared_ptr<const text::Tokenizer>>;

Made load(const json& tokenizer, const json& config = json::object(),
          const json& settings = json::object()) {
  const huggingface_test::TempFolder folder;
  folder.write("tokenizer.json", tokenizer.dump());
  folder.write("tokenizer_config.json", settings.dump());
  gguf::Writer writer;
  HOLDFAST_CHECKED(tokenizer_to_keys(folder.at(""), config, writer));
  HOLDFAST_TRY(std::string bytes, writer.to_bytes());
  HOLDFAST_TRY(const auto file, gguf::File::from_bytes(std::move(bytes), "made"));
  return text::Tokenizer::load(*file);
}

/// Converts into the keys of a GGUF file and out again as a tokenizer.json.
Result<json> again(const json& tokenizer, const json& settings = json::object()) {
  const huggingface_test::TempFolder folder;
  folder.write("tokenizer.json", tokenizer.dump());
  folder.write("tokenizer_config.json", settings.dump());
  gguf::Writer writer;
  HOLDFAST_CHECKED(tokenizer_to_keys(folder.at(""), json::object(), writer));
  HOLDFAST_TRY(std::string bytes, writer.to_bytes());
  HOLDFAST_TRY(const auto file, gguf::File::from_bytes(std::move(bytes), "made"));
  return keys_to_tokenizer(*file);
}

std::string base64(const std::string& bytes) {
  const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bits, out;
  for (const char c : bytes) {
    for (int b = 7; b >= 0; --b) bits += (static_cast<unsigned char>(c) >> b & 1) != 0 ? '1' : '0';
  }
  while (bits.size() % 6 != 0) bits += '0';
  for (std::size_t i = 0; i < bits.size(); i += 6) {
    out += kDigits[std::stoul(bits.substr(i, 6), nullptr, 2)];
  }
  while (out.size() % 4 != 0) out += '=';
  return out;
}

/// A character map that makes "A" to "b" (and `more` bytes after it, so that the length varies).
std::string charsmap_of_a(std::size_t more) {
  std::vector<std::uint32_t> units(322, 0);
  units[0] = 256u << 10;
  units[256 ^ 'A'] = 'A' | 1u << 8 | 64u << 10;
  units[(256 ^ 'A') ^ 64] = 0x80000000u;
  const std::uint32_t size = 322 * 4;
  std::string out(reinterpret_cast<const char*>(&size), 4);
  out.append(reinterpret_cast<const char*>(units.data()), size);
  return out + std::string("b\0", 2) + std::string(more, '\0');
}

Ids ids(const Made& made, const std::string& text, bool special = false) {
  EXPECT_TRUE(made.has_value()) << made.error().what;
  if (!made) return {};
  const auto out = (*made)->encode(text, {.add_special = special, .parse_special = true});
  EXPECT_TRUE(out.has_value());
  return *out;
}

std::string back(const Made& made, const Ids& list) {
  return text::decode(**made, list, false, true);
}

json added(int id, const char* text, bool special) {
  return {{"id", id}, {"content", text}, {"special", special}};
}

json byte_level(const json& pre_tokenizer) {
  json vocab = json::object();
  int next = 0;
  for (const char* t : {"a", "b", "c", "Ġ", "Ã", "©", "ab", "abc", "Ġab", "1", "2", "12"}) {
    vocab[t] = next++;
  }
  return {{"added_tokens", json::array({added(12, "<|end|>", true), added(13, "<tool>", false)})},
          {"normalizer", nullptr},
          {"pre_tokenizer", pre_tokenizer},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", vocab},
            {"merges", json::array({"a b", json::array({"ab", "c"}), "Ġ ab", "1 2"})}}}};
}

json split(const char* regex) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", regex}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

TEST(TokenizerJson, ByteLevelBpe_WhenLoaded_EncodesAndDecodes) {
  const Made made = load(byte_level({{"type", "ByteLevel"}, {"add_prefix_space", false}}),
                         {{"vocab_size", 16}}, {{"eos_token", "<|end|>"}});
  EXPECT_EQ(ids(made, "abc ab"), (Ids{7, 8}));
  EXPECT_EQ(ids(made, "é12<|end|>cab"), (Ids{4, 5, 11, 12, 2, 6}));
  EXPECT_EQ(ids(made, "a<tool>b"), (Ids{0, 13, 1}));
  EXPECT_EQ(back(made, {7, 8, 4, 5}), "abc abé");
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ((*made)->vocab_size(), 16);  // padded to the model's rows
  EXPECT_TRUE((*made)->is_end(12));
  EXPECT_EQ((*made)->warning(), "");
}

// Single digits by a Split and by Digits; a pattern of no known model works like any other.
TEST(TokenizerJson, PreTokenizerPattern_WhenCustom_SplitsByIt) {
  const json bytes = {{"type", "ByteLevel"}, {"use_regex", false}, {"add_prefix_space", false}};
  const auto sequence = [&](const json& first) {
    return json{{"type", "Sequence"}, {"pretokenizers", json::array({first, bytes})}};
  };
  EXPECT_EQ(ids(load(byte_level(sequence(split(R"(\p{N})")))), "12ab"), (Ids{9, 10, 6}));
  EXPECT_EQ(
      ids(load(byte_level(sequence({{"type", "Digits"}, {"individual_digits", true}}))), "12ab"),
      (Ids{9, 10, 6}));
  EXPECT_EQ(ids(load(byte_level(sequence(split(R"(b\s)")))), "ab a"), (Ids{0, 1, 3, 0}));
  const Made broken = load(byte_level(sequence(split("(a"))));
  ASSERT_FALSE(broken.has_value());
  EXPECT_NE(broken.error().what.find("does not compile"), std::string::npos) << broken.error().what;
}

TEST(TokenizerJson, Normalizer_WithNfc_ComposesCharacters) {
  json document = byte_level({{"type", "ByteLevel"}, {"add_prefix_space", false}});
  document["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(ids(load(document), "e\u0301"), (Ids{4, 5}));  // é in one character
}

TEST(TokenizerJson, SpmBpe_WithByteFallback_EncodesAndDecodes) {
  json vocab = {{"<unk>", 0}, {"<s>", 1}};
  int next = 2;
  for (int b = 0; b < 256; ++b) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(b));
    vocab[text] = next++;
  }
  for (const char* t : {"▁", "a", "b", "ab", "▁ab", "ba"}) vocab[t] = next++;  // 258…
  json document = {
      {"added_tokens", json::array({added(0, "<unk>", true), added(1, "<s>", true)})},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         json::array({{{"type", "Prepend"}, {"prepend", "▁"}},
                      {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}})}}},
      {"pre_tokenizer", nullptr},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", json::array({{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                                {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}})}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"byte_fallback", true},
        {"vocab", vocab},
        {"merges", json::array({"b a", "a b", "▁ ab"})}}}};
  const Made made = load(document);
  EXPECT_EQ(ids(made, "ab", true), (Ids{1, 262}));
  EXPECT_EQ(ids(made, "aba"), (Ids{258, 259, 263}));  // "b a" comes before "a b"
  EXPECT_EQ(ids(made, "é"), (Ids{258, 2 + 0xC3, 2 + 0xA9}));
  EXPECT_EQ(back(made, {262, 262}), "ab ab");
  // The form without the prefix, of gemma.
  document["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  EXPECT_EQ(ids(load(document), "ab ab"), (Ids{261, 262}));
}

TEST(TokenizerJson, Wordpiece_WithBertNormalizer_EncodesAndDecodes) {
  json vocab = json::object();
  int next = 0;
  for (const char* t : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##want", "##ed", "runn", "##ing",
                        ",", "wa", "##nt", "cafe", "世", "界", "want"}) {
    vocab[t] = next++;
  }
  json document = {
      {"added_tokens", json::array({added(0, "[PAD]", true), added(1, "[UNK]", true),
                                    added(2, "[CLS]", true), added(3, "[SEP]", true)})},
      {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", json::array({{{"SpecialToken", {{"id", "[CLS]"}, {"type_id", 0}}}},
                                {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                                {{"SpecialToken", {{"id", "[SEP]"}, {"type_id", 0}}}}})}}},
      {"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", vocab}}}};
  const Made made = load(document);
  EXPECT_EQ(ids(made, "UNwanted, running", true), (Ids{2, 4, 5, 6, 9, 7, 8, 3}));
  EXPECT_EQ(ids(made, "Café 世界"), (Ids{12, 13, 14}));  // accent off, ideographs alone
  EXPECT_EQ(ids(made, "want wantx"), (Ids{15, 1}));      // a rest makes the whole word unknown
  EXPECT_EQ(ids(made, "want\x01\u00ad [SEP]un"), (Ids{15, 3, 4}));
  EXPECT_EQ(ids(made, std::string(101, 'a')), (Ids{1}));
  EXPECT_EQ(back(made, {4, 5, 6, 9, 7, 8}), "unwanted , running");
  document["normalizer"]["lowercase"] = false;
  EXPECT_EQ(ids(load(document), "UN un"), (Ids{1, 4}));
}

TEST(TokenizerJson, Unigram_WhenLoaded_SelectsTheBestScore) {
  const json vocab = json::array({{"<pad>", 0.0},
                                  {"</s>", 0.0},
                                  {"<unk>", 0.0},
                                  {"▁", -2.0},
                                  {"a", -3.0},
                                  {"b", -3.0},
                                  {"ab", -4.0},
                                  {"▁ab", -7.5},
                                  {"bb", -8.0},
                                  {"▁a", -4.0}});
  json document = {
      {"added_tokens",
       json::array({added(0, "<pad>", true), added(1, "</s>", true), added(2, "<unk>", true)})},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                                {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}}})}}},
      {"model", {{"type", "Unigram"}, {"unk_id", 2}, {"vocab", vocab}}}};
  const Made made = load(document, json::object(), {{"eos_token", "</s>"}});
  // "▁ab": ▁ + ab = -6, ▁ab = -7.5, ▁a + b = -7
  EXPECT_EQ(ids(made, "ab", true), (Ids{3, 6, 1}));
  // "▁bb": ▁ + b + b = -8, ▁ + bb = -10
  EXPECT_EQ(ids(made, "bb"), (Ids{3, 5, 5}));
  EXPECT_EQ(ids(made, "xyab"), (Ids{3, 2, 6}));  // adjacent unknown characters are one token
  EXPECT_EQ(back(made, {3, 6, 9}), "ab a");
  document["model"]["vocab"][4] = json::array({"a", "x"});
  EXPECT_FALSE(load(document).has_value());
}

json t5_like() {
  const json vocab = json::array({{"<pad>", 0.0},
                                  {"</s>", 0.0},
                                  {"<unk>", 0.0},
                                  {"▁", -2.0},
                                  {"a", -3.0},
                                  {"b", -3.0},
                                  {"ab", -4.0},
                                  {"▁ab", -7.5},
                                  {"<extra>", -1.25}});
  const json meta = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}};
  return {{"added_tokens", json::array({added(0, "<pad>", true), added(1, "</s>", true),
                                        added(2, "<unk>", true), added(8, "<extra>", false)})},
          {"normalizer", nullptr},
          {"pre_tokenizer", meta},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                                    {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}}})}}},
          {"model", {{"type", "Unigram"}, {"unk_id", 2}, {"vocab", vocab}}}};
}

TEST(TokenizerJson, Unigram_WhenExportedAndLoadedAgain_GivesSameIds) {
  const json settings = {{"eos_token", "</s>"}};
  for (int kind = 0; kind < 6; ++kind) {
    json document = t5_like();
    const json meta = document["pre_tokenizer"];
    if (kind >= 1 && kind <= 3) {  // lengths with and without padding "=" of base64
      document["normalizer"] = {
          {"type", "Precompiled"},
          {"precompiled_charsmap", base64(charsmap_of_a(static_cast<std::size_t>(kind)))}};
    }
    if (kind == 4) {
      document["pre_tokenizer"] = {
          {"type", "Sequence"},
          {"pretokenizers", json::array({{{"type", "WhitespaceSplit"}}, meta})}};
    }
    if (kind == 5) document["pre_tokenizer"]["prepend_scheme"] = "never";
    const auto back_again = again(document, settings);
    ASSERT_TRUE(back_again.has_value()) << kind << ": " << back_again.error().what;
    EXPECT_EQ((*back_again)["model"]["vocab"], document["model"]["vocab"]) << kind;
    EXPECT_EQ((*back_again)["added_tokens"].size(), 4u);
    const Made first = load(document, json::object(), settings);
    const Made second = load(*back_again, json::object(), settings);
    for (const char* text : {"ab", " ab  ba ", "aAb", "x<extra>ab</s>", "", "b  x"}) {
      EXPECT_EQ(ids(second, text, true), ids(first, text, true)) << kind << ": " << text;
    }
  }
  json mapped = t5_like();
  mapped["normalizer"] = {{"type", "Precompiled"},
                          {"precompiled_charsmap", base64(charsmap_of_a(0))}};
  // The map makes b of A; "▁b" is ▁ and b.
  EXPECT_EQ(ids(load(again(mapped, settings).value(), json::object(), settings), "A"), (Ids{3, 5}));
}

// The token appended to a text may be another one than the token that ends an answer.
TEST(TokenizerJson, EndTokens_WhenThePostProcessorAddsAnother_IncludeBoth) {
  json document = byte_level({{"type", "ByteLevel"}, {"add_prefix_space", false}});
  document["added_tokens"].push_back(added(14, "<|im|>", true));
  document["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                              {{"SpecialToken", {{"id", "<|end|>"}, {"type_id", 0}}}}})}};
  const Made made = load(document, json::object(), {{"eos_token", "<|im|>"}});
  EXPECT_EQ(ids(made, "ab", true), (Ids{6, 12}));
  ASSERT_TRUE(made.has_value());
  EXPECT_TRUE((*made)->is_end(12));
  EXPECT_TRUE((*made)->is_end(14));
  document["post_processor"] = {
      {"type", "BertProcessing"}, {"sep", {"<|im|>", 14}}, {"cls", {"<|end|>", 12}}};
  EXPECT_EQ(ids(load(document), "ab", true), (Ids{12, 6, 14}));
}

TEST(TokenizerJson, Unigram_WithByteFallback_SurvivesExport) {
  json document = t5_like();
  for (int b = 0; b < 256; ++b) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(b));
    document["model"]["vocab"].push_back({text, -20.0});
  }
  document["model"]["byte_fallback"] = true;
  const auto back_again = again(document);
  ASSERT_TRUE(back_again.has_value()) << back_again.error().what;
  EXPECT_EQ((*back_again)["model"]["byte_fallback"], true);
  EXPECT_EQ(ids(load(*back_again), "é"), (Ids{3, 9 + 0xC3, 9 + 0xA9}));
}

TEST(TokenizerJson, Export_WhenTokenizerJsonCannotExpressIt_IsRefused) {
  const auto exported = [](const std::function<void(gguf::Writer&)>& more) -> Result<json> {
    gguf::Writer writer;
    writer.set_string("tokenizer.ggml.model", "t5");
    writer.set_strings("tokenizer.ggml.tokens", {"<pad>", "</s>", "<unk>", "a", "b", "[PAD5]"});
    writer.set_i32s("tokenizer.ggml.token_type", {3, 3, 2, 1, 1, 5});
    writer.set_floats("tokenizer.ggml.scores", {0, 0, 0, -1, -2, 0});
    more(writer);
    HOLDFAST_TRY(std::string bytes, writer.to_bytes());
    HOLDFAST_TRY(const auto file, gguf::File::from_bytes(std::move(bytes), "made"));
    return keys_to_tokenizer(*file);
  };
  const auto whole = exported([](gguf::Writer&) {});
  ASSERT_TRUE(whole.has_value()) << whole.error().what;
  EXPECT_EQ((*whole)["model"]["vocab"].size(), 5u);  // the unused last one is no token
  EXPECT_EQ((*whole)["model"]["unk_id"], 2);
  const std::pair<const char*, std::function<void(gguf::Writer&)>> kCases[] = {
      {"token 3 is unused",
       [](gguf::Writer& w) {
         w.set_i32s("tokenizer.ggml.token_type", {3, 3, 2, 5, 1, 5});
       }},
      {"character map without",
       [](gguf::Writer& w) {
         std::vector<std::int32_t> bytes;
         for (const char c : charsmap_of_a(0)) bytes.push_back(static_cast<unsigned char>(c));
         w.set_i32s("tokenizer.ggml.precompiled_charsmap", bytes);
       }},
      {"are both \"a\"", [](gguf::Writer& w) {
         w.set_string("tokenizer.ggml.model", "bert");
         w.set_u32("tokenizer.ggml.unknown_token_id", 2);
         w.set_u32("tokenizer.ggml.cls_token_id", 0);
         w.set_u32("tokenizer.ggml.seperator_token_id", 1);
         w.set_strings("tokenizer.ggml.tokens", {"[CLS]", "[SEP]", "[UNK]", "▁a", "a", "b"});
         w.set_i32s("tokenizer.ggml.token_type", {3, 3, 2, 1, 3, 1});
       }}};
  for (const auto& [says, change] : kCases) {
    const auto refused = exported(change);
    ASSERT_FALSE(refused.has_value()) << says;
    EXPECT_EQ(refused.error().code, Errc::kUnsupported) << refused.error().what;
    EXPECT_NE(refused.error().what.find(says), std::string::npos) << refused.error().what;
  }
}

TEST(TokenizerJson, Encode_WithALongWord_IsNotQuadratic) {
  // A word of 200 kB without a cut: merging is not quadratic in its length (that would take hours
  // here, and the test's own time limit would end it).
  const Made made = load(byte_level({{"type", "ByteLevel"}, {"add_prefix_space", false}}));
  std::string word;
  for (int i = 0; i < 100'000; ++i) word += i % 3 == 0 ? "ab" : "ca";
  EXPECT_EQ(back(made, ids(made, word)), word);
}

TEST(TokenizerJson, Load_WhenAFeatureIsUnsupported_IsRefused) {
  const json plain = byte_level({{"type", "ByteLevel"}, {"add_prefix_space", false}});
  const std::pair<const char*, std::function<void(json&)>> kCases[] = {
      {"normalizer",
       [](json& j) {
         j["normalizer"] = {{"type", "StripAccents"}};
       }},
      {"behavior",
       [](json& j) {
         j["pre_tokenizer"] = split("a");
         j["pre_tokenizer"]["behavior"] = "Contiguous";
       }},
      {"add_prefix_space",
       [](json& j) {
         j["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
       }},
      {"end_of_word_suffix", [](json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }},
      {"space inside",
       [](json& j) {
         j["model"]["merges"] = json::array({json::array({"a b", "c"})});
       }},
      {"not in the vocabulary", [](json& j) { j["model"]["merges"] = json::array({"a z"}); }},
      {"has no space", [](json& j) { j["model"]["merges"] = json::array({"ab"}); }},
      {"neither byte-level",
       [](json& j) {
         j["pre_tokenizer"] = nullptr;
         j["decoder"] = nullptr;
       }},
      {"no \"model\"", [](json& j) { j.erase("model"); }},
      {"vocab", [](json& j) { j["model"]["vocab"] = json::array(); }},
      {"has no id", [](json& j) { j["model"]["vocab"]["a"] = "0"; }},
      {"has the id", [](json& j) { j["model"]["vocab"]["a"] = -1; }},
      {"no pair", [](json& j) { j["model"]["merges"] = json::array({json::array({"a"})}); }},
      {"no pair", [](json& j) { j["model"]["merges"] = json::array({7}); }},
      {"no array", [](json& j) { j["model"]["merges"] = json::object(); }},
      {"pre_tokenizer",
       [](json& j) {
         j["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
       }},
      {"pretokenizers",
       [](json& j) {
         j["pre_tokenizer"] = {{"type", "Sequence"}};
       }},
      {"Replace",
       [](json& j) {
         j["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "x"}}}, {"content", "y"}};
       }},
      {"clean_text",
       [](json& j) {
         j["normalizer"] = {{"type", "BertNormalizer"}, {"clean_text", false}};
       }},
  };
  for (const auto& [says, change] : kCases) {
    json document = plain;
    change(document);
    const Made made = load(document);
    ASSERT_FALSE(made.has_value()) << says;
    EXPECT_NE(made.error().what.find(says), std::string::npos) << says << ": " << made.error().what;
  }
}

}  // namespace
}  // namespace holdfast::huggingface::tokenizer_json_test
