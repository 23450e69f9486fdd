// Goal: folders of BERT and of sentence-transformers are the encoders that they describe: names of
// either class, pooling of every kind that is computed, WordPiece from tokenizer.json or vocab.txt;
// parts that are not computed are refused by name, unneeded parts are left out with a note. Method:
// a tiny random encoder (`synth`) as a folder, one file of it changed at a time; vectors compared
// bit for bit. Names, shapes and switches are those of modeling_bert.py of transformers and of
// models/Pooling.py of sentence-transformers.

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "ops/model_tools/convert.h"
#include "ops/model_tools/synth_family.h"
#include "shared/huggingface/stamp.h"
#include "shared/plan/family.h"
#include "shared/text/tokenizer.h"
#include "tests/huggingface/same_model.h"
#include "tests/huggingface/stored_folder.h"

namespace holdfast::huggingface::encoder_test {
namespace {

using huggingface_test::outputs_of;
using huggingface_test::StoredFolder;
using nlohmann::json;

/// Makes a folder "f"; with seed 0: width 128, 4 heads, 256 positions, 320 tokens, mean pooling.
void make_bert(const huggingface_test::TempFolder& temp, std::uint64_t seed = 0) {
  ASSERT_TRUE(cli::synth_family("bert", temp.at("m.gguf"), "f32", seed, "none").has_value());
  const auto made = cli::convert_model({temp.at("m.gguf"), temp.at("f")}, {});
  ASSERT_TRUE(made.has_value()) << made.error().what;
}

TEST(Encoder, BertFolder_WhenWritten_HasTransformersNamesAndKeys) {
  const huggingface_test::TempFolder temp;
  make_bert(temp);
  StoredFolder stored(temp);
  const std::map<std::string, std::vector<std::uint64_t>> expected = {
      {"embeddings.word_embeddings.weight", {320, 128}},
      {"embeddings.position_embeddings.weight", {256, 128}},
      {"embeddings.token_type_embeddings.weight", {2, 128}},
      {"embeddings.LayerNorm.weight", {128}},
      {"embeddings.LayerNorm.bias", {128}},
      {"encoder.layer.1.attention.self.query.weight", {128, 128}},
      {"encoder.layer.1.attention.self.query.bias", {128}},
      {"encoder.layer.1.attention.self.key.weight", {128, 128}},
      {"encoder.layer.1.attention.self.key.bias", {128}},
      {"encoder.layer.1.attention.self.value.weight", {128, 128}},
      {"encoder.layer.1.attention.self.value.bias", {128}},
      {"encoder.layer.1.attention.output.dense.weight", {128, 128}},
      {"encoder.layer.1.attention.output.dense.bias", {128}},
      {"encoder.layer.1.attention.output.LayerNorm.weight", {128}},
      {"encoder.layer.1.attention.output.LayerNorm.bias", {128}},
      {"encoder.layer.1.intermediate.dense.weight", {256, 128}},
      {"encoder.layer.1.intermediate.dense.bias", {256}},
      {"encoder.layer.1.output.dense.weight", {128, 256}},
      {"encoder.layer.1.output.dense.bias", {128}},
      {"encoder.layer.1.output.LayerNorm.weight", {128}},
      {"encoder.layer.1.output.LayerNorm.bias", {128}}};
  std::map<std::string, std::vector<std::uint64_t>> have;
  for (const auto& [name, tensor] : stored.tensors()) {
    if (name.find(".layer.0.") == name.npos && name.find(".layer.2.") == name.npos) {
      have[name] = tensor.shape;
    }
  }
  EXPECT_EQ(have, expected);
  const json keys = {{"model_type", "bert"},           {"hidden_act", "gelu"},
                     {"num_hidden_layers", 3},         {"num_attention_heads", 4},
                     {"intermediate_size", 256},       {"type_vocab_size", 2},
                     {"max_position_embeddings", 256}, {"layer_norm_eps", 1e-5}};
  for (const auto& [name, value] : keys.items()) {
    EXPECT_EQ(stored.config()[name], value) << name;
  }
  EXPECT_FALSE(stored.config().contains("num_key_value_heads"));
  EXPECT_FALSE(stored.config().contains("rope_theta"));
}

TEST(Encoder, Folder_WithOtherSpellings_IsTheSameModel) {
  const huggingface_test::TempFolder temp;
  make_bert(temp);
  const auto expected = outputs_of(temp.at("m.gguf"));
  StoredFolder stored(temp);
  stored.rename("embeddings.LayerNorm.weight", "embeddings.LayerNorm.gamma");
  stored.rename("embeddings.LayerNorm.bias", "embeddings.LayerNorm.beta");
  stored.rename("", "bert.");  // the form in which BertForMaskedLM is saved
  stored.add("bert.embeddings.position_ids", {1, 256}, 0);
  stored.add("bert.pooler.dense.weight", {128, 128}, 1);
  stored.add("bert.pooler.dense.bias", {128}, 1);
  stored.add("cls.predictions.bias", {320}, 1);
  stored.write();
  EXPECT_EQ(outputs_of(temp.at("f")), expected);
  const auto file = open_model(temp.at("f")).value();
  EXPECT_EQ(notes_of(*file),
            (std::vector<std::string>{"left out: the heads of pre-training, 1 tensor",
                                      "left out: the pooler of the first token, 2 tensors"}));
  const auto made = cli::convert_model({temp.at("f"), temp.at("again.gguf")}, {});
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->warnings.size(), 2u);
  EXPECT_EQ(outputs_of(temp.at("again.gguf")), expected);
}

/// The config of sentence-transformers sets the engine's pooling.
TEST(Encoder, Pooling_WithEachMode_SetsThePoolingType) {
  const huggingface_test::TempFolder temp;
  make_bert(temp);
  const json modules = json::parse(temp.read("f/modules.json"));
  ASSERT_EQ(modules.size(), 3u);
  EXPECT_EQ(modules[0]["type"], "sentence_transformers.models.Transformer");
  EXPECT_EQ(modules[1]["path"], "1_Pooling");
  const json written = json::parse(temp.read("f/1_Pooling/config.json"));
  EXPECT_EQ(written["pooling_mode_mean_tokens"], true);
  EXPECT_EQ(written["pooling_mode_cls_token"], false);
  EXPECT_EQ(written["word_embedding_dimension"], 128);
  const auto pooling = [&](const json& config) -> Result<plan::Pooling> {
    temp.write("f/1_Pooling/config.json", config.dump());
    HOLDFAST_TRY(const auto file, open_model(temp.at("f")));
    HOLDFAST_TRY(const plan::ModelShape shape, plan::read_shape(*file));
    HOLDFAST_TRY(const plan::Details details, plan::read_details(*file, shape));
    EXPECT_TRUE(details.pooling_named);
    return details.pooling;
  };
  EXPECT_EQ(pooling({{"pooling_mode_mean_tokens", true}}).value(), plan::Pooling::kMean);
  EXPECT_EQ(pooling({{"pooling_mode_cls_token", true}}).value(), plan::Pooling::kCls);
  EXPECT_EQ(pooling({{"pooling_mode_lasttoken", true}, {"pooling_mode_cls_token", false}}).value(),
            plan::Pooling::kLast);
  EXPECT_EQ(pooling({{"pooling_mode", "cls"}}).value(), plan::Pooling::kCls);
  for (const json& bad :
       {json{{"pooling_mode_max_tokens", true}},
        json{{"pooling_mode_mean_tokens", true}, {"pooling_mode_cls_token", true}},
        json{{"pooling_mode", "weightedmean"}}}) {
    const auto refused = pooling(bad);
    ASSERT_FALSE(refused.has_value()) << bad;
    EXPECT_EQ(refused.error().code, Errc::kUnsupported) << refused.error().what;
    EXPECT_NE(refused.error().what.find("1_Pooling/config.json"), std::string::npos);
  }
  EXPECT_EQ(pooling(json::object()).error().code, Errc::kFileInvalid);
  EXPECT_EQ(pooling({{"pooling_mode_mean_tokens", true}}).value(), plan::Pooling::kMean);
  // The kind of pooling is part of the registered model's hash.
  const auto sha = sha256_of(temp.at("f")).value();
  temp.write("f/1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  EXPECT_NE(sha256_of(temp.at("f")).value(), sha);
}

TEST(Encoder, ModulesJson_WhenInvalid_IsRefused) {
  const huggingface_test::TempFolder temp;
  make_bert(temp);
  const auto opened = [&](const char* modules) {
    temp.write("f/modules.json", modules);
    return open_model(temp.at("f"));
  };
  const std::string kTransformer =
      R"({"path": "", "type": "sentence_transformers.models.Transformer"})";
  const auto alone = opened(("[" + kTransformer + "]").c_str());
  ASSERT_TRUE(alone.has_value()) << alone.error().what;
  EXPECT_EQ((*alone)->get_u64("bert.pooling_type"), 0u);
  for (const auto& [modules, says] :
       {std::pair{"{}", "JSON array"}, std::pair{"[]", "no Transformer"},
        std::pair{"[7]", "object"},
        std::pair{R"([{"path": "0_T", "type": "a.Transformer"}])", "0_T"},
        std::pair{
            R"([{"path": "", "type": "a.Transformer"}, {"path": "2_Dense", "type": "a.Dense"}])",
            "Dense"},
        std::pair{
            R"([{"path": "", "type": "a.Transformer"}, {"path": "../x", "type": "a.Pooling"}])",
            "../x"},
        std::pair{
            R"([{"path": "", "type": "a.Transformer"}, {"path": "none", "type": "a.Pooling"}])",
            "none/config.json"}}) {
    const auto refused = opened(modules);
    ASSERT_FALSE(refused.has_value()) << modules;
    EXPECT_NE(refused.error().what.find(says), std::string::npos) << refused.error().what;
  }
  std::filesystem::remove(temp.at("f/modules.json"));
  EXPECT_FALSE(open_model(temp.at("f")).value()->has("bert.pooling_type"));
}

/// A vocabulary of 320 words for the tiny model: the beginning of BERT's files, then pieces.
std::vector<std::string> words() {
  std::vector<std::string> out = {"[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (const char* word : {"un", "##want", "##ed", "runn", "##ing", ",", "cafe", "世", "UN"}) {
    out.emplace_back(word);
  }
  while (out.size() < 320) {
    const bool inside = out.size() % 2 == 0;
    out.push_back((inside ? "##w" : "w") + std::to_string(out.size()));
  }
  return out;
}

std::vector<text::TokenId> ids_of(const std::string& path, const std::string& text) {
  const auto file = open_model(path);
  EXPECT_TRUE(file.has_value()) << file.error().what;
  if (!file) return {};
  const auto tokenizer = text::Tokenizer::load(**file);
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().what;
  return tokenizer ? (*tokenizer)->encode(text, {}).value() : std::vector<text::TokenId>();
}

/// vocab.txt, the GGUF file of that, and the tokenizer.json of that are one tokenizer.
TEST(Encoder, WordList_WhenConvertedBothWays_GivesSameIds) {
  for (const bool lowercase : {true, false}) {
    const huggingface_test::TempFolder temp;
    make_bert(temp);
    std::string lines;
    for (const std::string& word : words()) lines += word + "\n";
    std::filesystem::remove(temp.at("f/tokenizer.json"));
    temp.write("f/vocab.txt", lines);
    temp.write("f/tokenizer_config.json", json{{"do_lower_case", lowercase}}.dump());
    const std::string kText = "UNwanted, Café 世x w15w16 [MASK]\tw16";
    const auto expected = ids_of(temp.at("f"), kText);
    ASSERT_GE(expected.size(), 6u);
    EXPECT_EQ(expected.front(), 3);  // [CLS]
    EXPECT_EQ(expected.back(), 4);   // [SEP]
    if (lowercase) {
      EXPECT_EQ(std::vector<text::TokenId>(expected.begin() + 1, expected.begin() + 6),
                (std::vector<text::TokenId>{6, 7, 8, 11, 12}));
    }
    ASSERT_TRUE(cli::convert_model({temp.at("f"), temp.at("w.gguf")}, {}).has_value());
    EXPECT_EQ(ids_of(temp.at("w.gguf"), kText), expected);
    const auto made = cli::convert_model({temp.at("w.gguf"), temp.at("g")}, {});
    ASSERT_TRUE(made.has_value()) << made.error().what;
    EXPECT_EQ(ids_of(temp.at("g"), kText), expected);
    const json tokenizer = json::parse(temp.read("g/tokenizer.json"));
    EXPECT_EQ(tokenizer["model"]["type"], "WordPiece");
    EXPECT_EQ(tokenizer["normalizer"]["lowercase"], lowercase);
    const std::vector<std::string> all = words();
    EXPECT_EQ(tokenizer["model"]["vocab"].size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(tokenizer["model"]["vocab"][all[i]], i) << all[i];
    }
    ASSERT_TRUE(cli::convert_model({temp.at("g"), temp.at("again.gguf")}, {}).has_value());
    EXPECT_EQ(ids_of(temp.at("again.gguf"), kText), expected);
    EXPECT_EQ(outputs_of(temp.at("again.gguf")), outputs_of(temp.at("m.gguf")));
  }
}

TEST(Encoder, WordList_WhenBroken_IsRefused) {
  const huggingface_test::TempFolder temp;
  make_bert(temp);
  std::filesystem::remove(temp.at("f/tokenizer.json"));
  std::filesystem::remove(temp.at("f/tokenizer_config.json"));
  const std::pair<std::string, const char*> kLists[] = {
      {"", "no tokens"},
      {"[UNK]\n[CLS]\n", "sep_token"},
      {"[CLS]\n[SEP]\na\n", "unk_token"},
      {"[UNK]\n\xFF\n", "UTF-8"},
      {"[UNK]\n[CLS]\n[SEP]\n" + std::string(400, '\n') + "a", "320 rows"}};
  for (const auto& [lines, says] : kLists) {
    temp.write("f/vocab.txt", lines);
    const auto opened = open_model(temp.at("f"));
    ASSERT_FALSE(opened.has_value()) << says;
    EXPECT_EQ(opened.error().code, Errc::kFileInvalid);
    EXPECT_NE(opened.error().what.find(says), std::string::npos) << opened.error().what;
  }
  temp.write("f/vocab.txt", "[UNK]\r\n[CLS]\r\n[SEP]\r\nab\r\n");
  EXPECT_EQ(ids_of(temp.at("f"), "ab"), (std::vector<text::TokenId>{1, 3, 2}));
}

TEST(Encoder, Folder_WhenDamaged_IsRefusedByName) {
  const std::tuple<std::function<void(StoredFolder&)>, Errc, std::string> kDamages[] = {
      {[](StoredFolder& f) { f.config()["position_embedding_type"] = "relative_key"; },
       Errc::kUnsupported, "position_embedding_type"},
      {[](StoredFolder& f) { f.config()["is_decoder"] = true; }, Errc::kUnsupported, "is_decoder"},
      {[](StoredFolder& f) { f.config()["hidden_act"] = "relu"; }, Errc::kUnsupported, "relu"},
      {[](StoredFolder& f) { f.config()["max_position_embeddings"] = 512; }, Errc::kFileInvalid,
       "512 positions"},
      {[](StoredFolder& f) {
         f.add("classifier.weight", {1, 128}, 1);
       },
       Errc::kUnsupported, "classifier.weight"},
      {[](StoredFolder& f) { f.erase("encoder.layer.2.output.LayerNorm.bias"); },
       Errc::kFileInvalid, "blk.2.layer_output_norm.bias"},
      {[](StoredFolder& f) {
         f.reshape("encoder.layer.0.intermediate.dense.weight", {128, 256});
       },
       Errc::kFileInvalid, "blk.0.ffn_up.weight\" is stored transposed"},
      {[](StoredFolder& f) { f.add("embeddings.LayerNorm.gamma", {128}, 1); }, Errc::kFileInvalid,
       "there twice"}};
  for (const auto& [change, code, says] : kDamages) {
    const huggingface_test::TempFolder temp;
    make_bert(temp);
    StoredFolder stored(temp);
    change(stored);
    stored.write();
    const auto opened = open_model(temp.at("f"));
    const auto shape =
        opened ? plan::read_shape(**opened) : Result<plan::ModelShape>(opened.error());
    ASSERT_FALSE(shape.has_value()) << says;
    EXPECT_EQ(shape.error().code, code) << shape.error().what;
    EXPECT_NE(shape.error().what.find(says), std::string::npos) << shape.error().what;
  }
}

}  // namespace
}  // namespace holdfast::huggingface::encoder_test
