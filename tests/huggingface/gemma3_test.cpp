// Goal: folders of gemma 3 are read: a config whose text part leaves most values to its class, a
// model with vision of which the text part alone runs, windows given layer by layer. Method: the
// published config read into keys; a tiny random model (`synth`) under the names that transformers'
// versions give it, computed: bit-identical to its GGUF file.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ops/model_tools/convert.h"
#include "ops/model_tools/synth_family.h"
#include "shared/huggingface/families.h"
#include "tests/huggingface/same_model.h"
#include "tests/huggingface/stored_folder.h"

namespace holdfast::huggingface::gemma3_test {
namespace {

using huggingface_test::outputs_of;
using huggingface_test::StoredFolder;
using nlohmann::json;

/// The config of gemma-3-4b-it (as published, without the part for images): Gemma3TextConfig has
/// the values that it omits.
TEST(Gemma3Folder, PublishedConfig_WhenKeysAreOmitted_UsesClassDefaults) {
  const json published = json::parse(R"({
    "architectures": ["Gemma3ForConditionalGeneration"], "eos_token_id": [1, 106],
    "model_type": "gemma3",
    "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
      "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
      "sliding_window": 1024},
    "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27}})");
  const Family& family = *family_of_type("gemma3");
  gguf::Writer writer;
  const auto sizes =
      config_to_keys(full_config(published, family).value(), family, "gemma", writer);
  ASSERT_TRUE(sizes.has_value()) << sizes.error().what;
  EXPECT_TRUE(sizes->tied);
  const auto file = gguf::File::from_bytes(writer.to_bytes().value(), "made").value();
  const std::pair<const char*, double> kKeys[] = {
      {"block_count", 34},           {"embedding_length", 2560},
      {"attention.head_count", 8},   {"attention.head_count_kv", 4},
      {"attention.key_length", 256}, {"attention.sliding_window", 1024},
      {"context_length", 131072},    {"vocab_size", 262208},
      {"rope.freq_base", 1e6},       {"rope.scaling.factor", 8}};
  for (const auto& [key, value] : kKeys) {
    EXPECT_EQ(file->get_f64(std::string("gemma3.") + key), value) << key;
  }
  EXPECT_EQ(full_config(json{{"model_type", "gemma3"}}, family).error().code, Errc::kFileInvalid);
}

/// A folder with vision: the text's tensors under either prefix, the others left out with a note.
TEST(Gemma3Folder, VisionTensors_WhenPresent_AreLeftOutWithANote) {
  const std::pair<const char*, const char*> kPrefixes[] = {
      {"language_model.model.", "vision_tower."}, {"model.language_model.", "model.vision_tower."}};
  for (const auto& [text, vision] : kPrefixes) {
    const huggingface_test::TempFolder temp;
    ASSERT_TRUE(cli::synth_family("gemma3", temp.at("m.gguf"), "f32", 0, "none").has_value());
    ASSERT_TRUE(cli::convert_model({temp.at("m.gguf"), temp.at("f")}, {}).has_value());
    StoredFolder stored(temp);
    stored.rename("model.", text);
    stored.add(std::string(vision) + "vision_model.encoder.layers.0.mlp.fc1.weight", {8, 8}, 1);
    stored.add(std::string(vision) + "vision_model.embeddings.patch_embedding.weight", {8, 3, 2, 2},
               1);
    stored.add("multi_modal_projector.mm_input_projection_weight", {8, 8}, 1);
    json outer = {{"model_type", "gemma3"}, {"text_config", stored.config()}};
    stored.config() = outer;
    stored.write();
    const auto file = open_model(temp.at("f"));
    ASSERT_TRUE(file.has_value()) << file.error().what;
    EXPECT_EQ(notes_of(**file),
              (std::vector<std::string>{"left out: the projection of images, 1 tensor",
                                        "left out: the vision encoder, 2 tensors"}));
    EXPECT_EQ(outputs_of(temp.at("f")), outputs_of(temp.at("m.gguf")));
    stored.add("audio_tower.weight", {8, 8}, 1);
    stored.write();
    EXPECT_EQ(open_model(temp.at("f")).error().code, Errc::kUnsupported);
  }
}

/// Layers with windows, given layer by layer and by the newer object for positions.
TEST(Gemma3Folder, LayerTypes_WithSlidingWindows_AreReadAndWritten) {
  const huggingface_test::TempFolder temp;
  ASSERT_TRUE(cli::synth_family("gemma3", temp.at("m.gguf"), "f32", 0, "none").has_value());
  ASSERT_TRUE(cli::convert_model({temp.at("m.gguf"), temp.at("f")}, {}).has_value());
  const auto expected = outputs_of(temp.at("m.gguf"));
  StoredFolder stored(temp);
  const json config = stored.config();
  const std::string w = "sliding_attention", all = "full_attention";
  const json usual = json::array({w, w, w, w, w, all});
  const json turned = json::array({all, w, w, w, w, all});
  ASSERT_EQ(config["num_hidden_layers"], 6);
  stored.config()["layer_types"] = usual;
  stored.config()["rope_parameters"] = {{all, {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
                                        {w, {{"rope_type", "default"}, {"rope_theta", 10000.0}}}};
  stored.write();
  EXPECT_EQ(outputs_of(temp.at("f")), expected);
  stored.config()["layer_types"] = turned;
  stored.write();
  const auto other = outputs_of(temp.at("f"));
  ASSERT_TRUE(cli::convert_model({temp.at("f"), temp.at("t.gguf")}, {}).has_value());
  EXPECT_EQ(outputs_of(temp.at("t.gguf")), other);
  ASSERT_TRUE(cli::convert_model({temp.at("t.gguf"), temp.at("g")}, {}).has_value());
  EXPECT_EQ(json::parse(temp.read("g/config.json"))["layer_types"], turned);
  EXPECT_EQ(outputs_of(temp.at("g")), other);
  for (const auto& [name, value] :
       {std::pair{"layer_types", json::array({w})},
        std::pair{"layer_types", json::array({w, w, w, w, w, "odd"})},
        std::pair{"rope_parameters", json{{all, json::object()}, {w, {{"rope_theta", 5000.0}}}}}}) {
    stored.config() = config;
    stored.config()[name] = value;
    stored.write();
    const auto refused = open_model(temp.at("f"));
    ASSERT_FALSE(refused.has_value()) << name;
    EXPECT_NE(refused.error().what.find(name), std::string::npos) << refused.error().what;
  }
}

}  // namespace
}  // namespace holdfast::huggingface::gemma3_test
