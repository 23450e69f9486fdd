// Goal: a folder of Hugging Face's form is the same model as the GGUF file that a converter makes
// of it: the same bytes of every tensor, the same logits, the same tokens; a broken folder is
// refused. Method: random models of each family as GGUF files, written as folders (in several
// parts), read back as folders and as files made of those; logits by the serving engine, compared
// bit for bit. The order of rows is checked against the definition by hand, since a mistake made
// both ways would not show in a round trip.

#include "shared/huggingface/folder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ops/model_tools/convert.h"
#include "ops/model_tools/synth.h"
#include "ops/model_tools/synth_family.h"
#include "shared/huggingface/stamp.h"
#include "shared/plan/plan.h"
#include "shared/text/tokenizer.h"
#include "tests/huggingface/same_model.h"
#include "tests/huggingface/temp_folder.h"

namespace holdfast::huggingface::folder_test {
namespace {

using nlohmann::json;

using huggingface_test::expect_same_tensors;
using huggingface_test::outputs_of;

class FolderOf : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(FolderOf, ConvertedFolder_WhenOpened_IsTheSameModel) {
  const auto [shape, type] = GetParam();
  const huggingface_test::TempFolder temp;
  const std::string file = temp.at("m.gguf");
  ASSERT_TRUE(cli::synth(shape, file, type, 11, {}).has_value());
  cli::ConvertCall call{file, temp.at("folder"), 300'000};  // some ten parts
  const auto made = cli::convert_model(call, {});
  ASSERT_TRUE(made.has_value()) << made.error().what;
  EXPECT_TRUE(std::filesystem::exists(temp.at("folder/model.safetensors.index.json")));
  const auto original = gguf::File::open(file).value();
  const auto folder = open_model(temp.at("folder"));
  ASSERT_TRUE(folder.has_value()) << folder.error().what;
  expect_same_tensors(*original, **folder);
  const auto expected = outputs_of(file);
  EXPECT_EQ(outputs_of(temp.at("folder")), expected);
  // The folder is made a file again.
  ASSERT_TRUE(cli::convert_model({temp.at("folder"), temp.at("again.gguf")}, {}).has_value());
  expect_same_tensors(*original, *gguf::File::open(temp.at("again.gguf")).value());
  EXPECT_EQ(outputs_of(temp.at("again.gguf")), expected);
  // A header has the same content for every reader.
  plan::ModelShape a = plan::read_shape(*original).value();
  plan::ModelShape b = plan::read_shape(**open_model(temp.at("folder"), Contents::kShapes)).value();
  b.name = a.name;
  EXPECT_EQ(plan::shape_to_json(a), plan::shape_to_json(b));
  const auto tokens = [](const gguf::File& f) {
    return text::Tokenizer::load(f).value()->encode("Hello, wörld\n 1 <s>", {}).value();
  };
  EXPECT_EQ(tokens(*original), tokens(**folder));
}

INSTANTIATE_TEST_SUITE_P(Families, FolderOf,
                         testing::Values(std::pair{"test-llama", "f32"},
                                         std::pair{"test-llama", "bf16"},
                                         std::pair{"test-qwen2", "f16"},
                                         std::pair{"test-qwen3", "bf16"}));

// The kinds of position scaling, each as config.json has it.
TEST(Folder, RopeScaling_WithEachType_IsTheSameModel) {
  for (const auto& [family, scaling] :
       {std::pair{"llama", "linear"}, std::pair{"qwen2", "yarn"}, std::pair{"qwen3", "yarn"},
        std::pair{"phi3", "longrope"}}) {
    const huggingface_test::TempFolder temp;
    ASSERT_TRUE(cli::synth_family(family, temp.at("m.gguf"), "f32", 0, scaling).has_value());
    const auto made = cli::convert_model({temp.at("m.gguf"), temp.at("folder")}, {});
    ASSERT_TRUE(made.has_value()) << made.error().what;
    EXPECT_NE(temp.read("folder/config.json").find(scaling), std::string::npos);
    EXPECT_EQ(outputs_of(temp.at("folder")), outputs_of(temp.at("m.gguf"))) << family << scaling;
  }
}

// Hugging Face's llama rotates element i of a head with element i + half, GGUF's element 2 i with
// 2 i + 1: row p * half + i of a head in the folder is row 2 i + p of the file.
TEST(Folder, LlamaRows_WhenConverted_ArePermutedForRope) {
  const huggingface_test::TempFolder temp;
  ASSERT_TRUE(cli::synth("test-llama", temp.at("m.gguf"), "f32", 3, {}).has_value());
  ASSERT_TRUE(cli::convert_model({temp.at("m.gguf"), temp.at("folder")}, {}).has_value());
  const std::string bytes = temp.read("folder/model.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const json header = json::parse(bytes.substr(8, length));
  const auto row = [&](const char* name, std::size_t r, std::size_t columns) {
    const std::size_t begin = header[name]["data_offsets"][0];
    return bytes.substr(8 + length + begin + r * columns * 4, columns * 4);
  };
  const auto file = gguf::File::open(temp.at("m.gguf")).value();
  constexpr std::size_t kWidth = 256, kHeadDim = 32, kHalf = 16;
  for (const auto& [huggingface_name, name, heads] :
       {std::tuple{"model.layers.1.self_attn.q_proj.weight", "blk.1.attn_q.weight", 8},
        std::tuple{"model.layers.1.self_attn.k_proj.weight", "blk.1.attn_k.weight", 4}}) {
    const std::byte* data = file->tensor(name)->data.data();
    for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h) {
      for (std::size_t p = 0; p < 2; ++p) {
        for (std::size_t i = 0; i < kHalf; ++i) {
          const std::byte* there = data + (h * kHeadDim + 2 * i + p) * kWidth * 4;
          ASSERT_EQ(std::memcmp(row(huggingface_name, h * kHeadDim + p * kHalf + i, kWidth).data(),
                                there, kWidth * 4),
                    0)
              << name << " head " << h << " " << p << " " << i;
        }
      }
    }
  }
  const std::byte* v = file->tensor("blk.1.attn_v.weight")->data.data();
  EXPECT_EQ(std::memcmp(row("model.layers.1.self_attn.v_proj.weight", 5, kWidth).data(),
                        v + 5 * kWidth * 4, kWidth * 4),
            0);
}

// FIPS 180-4's example shows that this is the SHA-256 of other programs.
TEST(Sha256, Sha256_WithTheStandardsExample_MatchesIt) {
  const huggingface_test::TempFolder temp;
  std::ofstream(temp.at("abc")) << "abc";
  EXPECT_EQ(sha256_of(temp.at("abc")).value(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Folder, StampAndHash_WhenAnyFileChanges_Differ) {
  const huggingface_test::TempFolder temp;
  ASSERT_TRUE(cli::synth("tiny", temp.at("m.gguf"), "f32", 3, {}).has_value());
  ASSERT_TRUE(cli::convert_model({temp.at("m.gguf"), temp.at("f")}, {}).has_value());
  const auto sha = sha256_of(temp.at("f")).value();
  const auto stamp = stamp_of(temp.at("f")).value();
  temp.write("f/README.md", "not part of the model");
  EXPECT_EQ(sha256_of(temp.at("f")).value(), sha);
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) {
    const std::string before = temp.read(std::string("f/") + name);
    temp.write(std::string("f/") + name, before + " ");
    EXPECT_NE(sha256_of(temp.at("f")).value(), sha) << name;
    EXPECT_NE(stamp_of(temp.at("f")).value().size, stamp.size) << name;
    temp.write(std::string("f/") + name, before);
  }
  EXPECT_EQ(sha256_of(temp.at("f")).value(), sha);
}

/// A folder with one of its files changed, and what the error must name.
struct Damage {
  const char* file;
  std::function<void(json&)> change;
  const char* says;
};

TEST(Folder, Folder_WhenDamaged_IsRefusedByName) {
  const huggingface_test::TempFolder temp;
  ASSERT_TRUE(cli::synth("tiny", temp.at("m.gguf"), "f32", 3, {}).has_value());
  ASSERT_TRUE(cli::convert_model({temp.at("m.gguf"), temp.at("f"), 20'000}, {}).has_value());
  const char* kIndex = "f/model.safetensors.index.json";
  const Damage kDamages[] = {
      {"f/config.json", [](json& j) { j["model_type"] = "nothing"; }, "model_type"},
      {"f/config.json", [](json& j) { j.erase("hidden_size"); }, "hidden_size"},
      {"f/config.json", [](json& j) { j["num_attention_heads"] = 0; }, "num_attention_heads"},
      {"f/config.json", [](json& j) { j["num_attention_heads"] = 8; }, "heads"},
      {"f/config.json", [](json& j) { j["num_hidden_layers"] = 3; }, "blk.2"},
      {"f/config.json", [](json& j) { j["rms_norm_eps"] = "x"; }, "rms_norm_eps"},
      {"f/config.json", [](json& j) { j["hidden_act"] = "gelu"; }, "hidden_act"},
      {"f/config.json", [](json& j) { j["num_local_experts"] = 8; }, "experts"},
      {"f/config.json",
       [](json& j) {
         j["rope_scaling"] = {{"type", "odd"}, {"factor", 2}};
       },
       "rope_scaling"},
      {"f/config.json", [](json& j) { j["quantization_config"] = json::object(); }, "quant_method"},
      {kIndex, [](json& j) { j["weight_map"]["x"] = "../../etc/passwd"; }, "of the folder"},
      {kIndex, [](json& j) { j["weight_map"]["x"] = "absent.safetensors"; }, "absent"},
      {kIndex, [](json& j) { j.erase("weight_map"); }, "weight_map"},
      {"f/tokenizer.json", [](json& j) { j["model"]["merges"] = 7; }, "merges"},
      {"f/tokenizer.json", [](json& j) { j["model"]["type"] = "Odd"; }, "model type"},
      {"f/tokenizer.json", [](json& j) { j["model"]["vocab"]["x"] = 1 << 30; }, "has the id"},
      {"f/tokenizer.json",
       [](json& j) {
         j["normalizer"] = {{"type", "Odd"}};
       },
       "normalizer"},
      {"f/tokenizer.json", [](json& j) { j["added_tokens"] = json::array({7}); }, "added_tokens"},
  };
  for (const Damage& damage : kDamages) {
    const std::string before = temp.read(damage.file);
    json document = json::parse(before);
    damage.change(document);
    temp.write(damage.file, document.dump());
    const auto opened = open_model(temp.at("f"));
    std::string what = opened ? "" : opened.error().what;
    if (opened) {
      const auto shape = plan::read_shape(**opened);
      if (!shape) what = shape.error().what;
    }
    EXPECT_NE(what.find(damage.says), std::string::npos) << damage.says << ": " << what;
    temp.write(damage.file, before);
  }
  EXPECT_TRUE(open_model(temp.at("f")).has_value());
  EXPECT_EQ(open_model(temp.at("")).error().code, Errc::kIo);  // no config.json
}

TEST(Folder, Convert_WhenTheTargetExists_LeavesItUnchanged) {
  const huggingface_test::TempFolder temp;
  ASSERT_TRUE(cli::synth("tiny", temp.at("m.gguf"), "f32", 3, {}).has_value());
  temp.write("f/mine", "precious");
  EXPECT_EQ(cli::convert_model({temp.at("m.gguf"), temp.at("f")}, {}).error().code,
            Errc::kConflict);
  const auto stop = [] { return Result<void>(Error{Errc::kCancelled, "stopped"}); };
  EXPECT_EQ(cli::convert_model({temp.at("m.gguf"), temp.at("g")}, {}, stop).error().code,
            Errc::kCancelled);
  std::size_t left = 0;
  for (const auto& entry : std::filesystem::directory_iterator(temp.at(""))) {
    left += entry.exists() ? 1 : 0;
  }
  EXPECT_EQ(left, 2u);  // the file and the folder that were there
}

}  // namespace
}  // namespace holdfast::huggingface::folder_test
