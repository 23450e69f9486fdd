// Goal: a quantised folder that is broken, or of a form that no reader has, is refused by the
// tensor or the field, with what was found and what was expected; a layer whose numbers are wrong
// fails the load and nothing else. Method: folders of quantised_test's kind, with one change each.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "ops/model_tools/convert.h"
#include "shared/gguf/made.h"
#include "shared/huggingface/folder.h"
#include "tests/huggingface/quantise_tensors.h"
#include "tests/huggingface/tiny_folder.h"
#include "worker/engine/engine.h"

namespace holdfast::huggingface::quantised_faults_test {
namespace {

using namespace huggingface_test;
using nlohmann::json;

constexpr const char* kLayer = "model.layers.1.mlp.down_proj.";

/// A form of folder, and changes of it that are refused.
struct Fault {
  std::function<void(StoredFolder& f)> change;
  const char* says;
  Errc code = Errc::kFileInvalid;
};

std::function<void(StoredFolder&)> erase(const char* part) {
  return [part](StoredFolder& f) { f.erase(std::string(kLayer) + part); };
}
std::function<void(StoredFolder&)> reshape(const char* part, std::vector<std::uint64_t> shape) {
  return [=](StoredFolder& f) { f.reshape(std::string(kLayer) + part, shape); };
}
/// Replaces bytes of a tensor.
std::function<void(StoredFolder&)> overwrite(const char* part, std::size_t at, std::string bytes) {
  return [=](StoredFolder& f) {
    StoredFolder::Tensor tensor = f.tensors().at(std::string(kLayer) + part);
    ASSERT_LE(at + bytes.size(), tensor.bytes.size()) << part;
    tensor.bytes.replace(at, bytes.size(), bytes);
    f.put(std::string(kLayer) + part, tensor);
  };
}
std::function<void(StoredFolder&)> put(const char* part, StoredFolder::Tensor tensor) {
  return [=](StoredFolder& f) { f.put(std::string(kLayer) + part, tensor); };
}
std::function<void(StoredFolder&)> config(const char* pointer, json value) {
  return [=](StoredFolder& f) {
    f.config()["quantization_config"][json::json_pointer(pointer)] = value;
  };
}
std::string word(std::int32_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
std::string half_nan() {
  return std::string("\x00\x7e", 2);
}

/// Makes the folder, applies each change alone, and expects its error from open_model, or from the
/// load of the engine where the header is right. The folder without a change must load.
void expect_refused(const Quantise& form, const json& how, const std::vector<Fault>& faults) {
  TinyFolder folder, plain;
  folder.quantise(form, how, plain);
  const auto tensors = folder.stored().tensors();
  const json good = folder.stored().config();
  engine::EngineOptions options;
  options.device = "cpu";
  options.context = 64;
  options.slots = 1;
  const auto load = [&]() -> Result<void> {
    HOLDFAST_TRY(const auto file, open_model(folder.path()));
    HOLDFAST_TRY(const auto engine, engine::open_engine(folder.path(), options));
    return {};
  };
  for (const Fault& fault : faults) {
    fault.change(folder.stored());
    folder.stored().write();
    const auto loaded = load();
    EXPECT_FALSE(loaded.has_value()) << fault.says;
    if (!loaded) {
      EXPECT_EQ(loaded.error().code, fault.code) << loaded.error().what;
      EXPECT_NE(loaded.error().what.find(fault.says), std::string::npos)
          << fault.says << ": " << loaded.error().what;
    }
    folder.stored().clear();
    for (const auto& [name, tensor] : tensors) folder.stored().put(name, tensor);
    folder.stored().config() = good;
  }
  folder.stored().write();
  const auto again = load();
  EXPECT_TRUE(again.has_value()) << again.error().what;
}

TEST(QuantisedFaults, GptqFolder_WhenBroken_IsRefusedByTensorOrField) {
  const json how = {{"quant_method", "gptq"}, {"bits", 4},   {"group_size", 128},
                    {"desc_act", false},      {"sym", true}, {"checkpoint_format", "gptq"}};
  const StoredFolder::Tensor floats = floats_tensor("F32", {64, 256}, std::vector<float>(64 * 256));
  expect_refused(
      [](const PlainMatrix& m) { return gptq_layer(m, {}); }, how,
      {{erase("scales"), "down_proj.scales\" is missing, expected the scales"},
       {erase("qzeros"), "down_proj.qzeros\" is missing"},
       {erase("qweight"), "down_proj.qweight\" is missing"},
       {reshape("scales", {256, 4}), "is [256, 4], expected [4, 256]: a scale for each group"},
       {reshape("qzeros", {128}), "is [128], expected two dimensions"},
       {reshape("qzeros", {2, 64}), "is [2, 64], expected [4, 32]"},
       {reshape("qweight", {32, 512}), "is [512], expected [256]: a group for each input"},
       {reshape("qweight", {64 * 256, 1}), "expected whole words of codes of 4 bits"},
       {put("qweight", floats), "is of type F32, expected I32 or U32", Errc::kUnsupported},
       {put("qweight", {"I32", {0, 256}, ""}), "has no elements"},
       {put("g_idx", {"I32", {2}, std::string(8, '\0')}), "is [2], expected [512]"},
       {overwrite("g_idx", 40, word(4)), "has group 4 for input 10, expected 0 to 3"},
       {overwrite("g_idx", 40, word(-1)), "has group -1 for input 10, expected 0 to 3"},
       {overwrite("g_idx", 40, word(1)), "set desc_act"},
       {overwrite("scales", 20, half_nan()), "down_proj.scales\" has the scale nan of output 10"},
       {overwrite("qzeros", 0, std::string(4, '\0')), "set sym"},
       {config("/bits", 5), "quantization_config.bits is \"5\", expected 2, 3, 4 or 8",
        Errc::kUnsupported},
       {config("/bits", "four"), "quantization_config.bits is", Errc::kFileInvalid},
       {config("/bits", 8), "expected", Errc::kFileInvalid},
       {config("/group_size", 0), "group_size", Errc::kUnsupported},
       {config("/desc_act", 1), "desc_act", Errc::kFileInvalid},
       {config("/checkpoint_format", "marlin"), "gptq or gptq_v2", Errc::kUnsupported},
       {config("/is_marlin_format", true), "is_marlin_format", Errc::kUnsupported},
       {config("/dynamic", {{"+:.*down_proj", {{"bits", 8}}}}), "dynamic", Errc::kUnsupported},
       {config("/quant_method", "quanto"), "expected one of gptq, awq, fp8", Errc::kUnsupported},
       {config("/quant_method", "fp8"), "is no part of a llama model", Errc::kUnsupported},
       {[](StoredFolder& f) { f.config()["quantization_config"] = 7; }, "is no object"}});
}

TEST(QuantisedFaults, GptqFolder_WithOptionsThatChangeNothing_Loads) {
  TinyFolder folder, plain;
  json how = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}, {"sym", true}};
  how["dynamic"] = {{"-:.*lm_head", json::object()}};
  folder.quantise([](const PlainMatrix& m) { return gptq_layer(m, {}); }, how, plain);
  const auto tensors = folder.stored().tensors();
  for (const auto& [name, tensor] : tensors) {
    if (name.ends_with(".g_idx")) folder.stored().erase(name);  // as the first versions wrote it
  }
  folder.stored().write();
  const auto opened = open_model(folder.path());
  ASSERT_TRUE(opened.has_value()) << opened.error().what;
  EXPECT_EQ((*opened)->tensor("blk.0.ffn_up.weight")->type, gguf::TensorType::kQ4_0);
}

// GPTQ-for-LLaMa writes a bias of zeros for each layer.
TEST(QuantisedFaults, GptqFolder_WithBiasesThatTheFamilyLacks_LoadsIfTheyAreZeros) {
  TinyFolder folder, plain;
  const json how = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}, {"sym", true}};
  for (TinyFolder* f : {&folder, &plain}) f->stored().config()["model_type"] = "mistral";
  folder.quantise([](const PlainMatrix& m) { return gptq_layer(m, {}); }, how, plain);
  std::vector<float> bias(256);
  folder.stored().put("model.layers.1.mlp.down_proj.bias", floats_tensor("F16", {256}, bias));
  folder.stored().write();
  const auto opened = open_model(folder.path());
  ASSERT_TRUE(opened.has_value()) << opened.error().what;
  EXPECT_EQ((*opened)->tensors().size(), open_model(plain.path()).value()->tensors().size());
  bias[7] = 1;
  folder.stored().put("model.layers.1.mlp.down_proj.bias", floats_tensor("F16", {256}, bias));
  folder.stored().write();
  const auto refused = open_model(folder.path());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kUnsupported);
  EXPECT_NE(refused.error().what.find("down_proj.bias"), std::string::npos) << refused.error().what;
}

TEST(QuantisedFaults, AwqFolder_WhenBroken_IsRefusedByTensorOrField) {
  const json how = {{"quant_method", "awq"},
                    {"bits", 4},
                    {"group_size", 128},
                    {"zero_point", true},
                    {"version", "gemm"}};
  expect_refused([](const PlainMatrix& m) { return awq_layer(m, 128); }, how,
                 {{erase("qzeros"), "down_proj.qzeros\" is missing"},
                  {reshape("qweight", {256, 64}), "expected [2, 64]"},
                  {reshape("scales", {2, 512}), "is [2, 512], expected [4, 256]"},
                  {overwrite("scales", 0, std::string("\x00\x7c", 2)), "has the scale inf"},
                  {config("/bits", 8), "bits", Errc::kUnsupported},
                  {config("/version", "gemv"), "version", Errc::kUnsupported},
                  {config("/zero_point", false), "zero_point", Errc::kUnsupported},
                  {config("/group_size", 0), "group_size", Errc::kUnsupported}});
}

TEST(QuantisedFaults, Fp8Folder_WhenBroken_IsRefusedByTensorOrField) {
  const json how = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  const float nan = NAN;
  const std::string nan_bytes(reinterpret_cast<const char*>(&nan), 4);
  const StoredFolder::Tensor brief = floats_tensor("BF16", {2, 4}, std::vector<float>(8, 1));
  expect_refused(
      [](const PlainMatrix& m) {
        return fp8_layer(m, {.rows = 128, .columns = 128, .part = "weight_scale_inv"});
      },
      how,
      {{erase("weight_scale_inv"), "down_proj.weight_scale\" is missing"},
       {erase("weight"), "down_proj.weight\" is missing"},
       {reshape("weight_scale_inv", {4, 2}),
        "is [4, 2], expected [2, 4]: a scale for each block of 128 rows and 128 columns"},
       {reshape("weight", {512 * 256}), "expected two dimensions"},
       {put("weight", brief), "is of type BF16, expected F8_E4M3", Errc::kUnsupported},
       {put("weight_scale_inv", {"I8", {2, 4}, std::string(8, '\1')}), "is of type I8",
        Errc::kUnsupported},
       {overwrite("weight", 700, "\x7f"), "holds a code of no number"},
       {overwrite("weight_scale_inv", 4, nan_bytes), "holds a NaN or infinity at element 1"},
       {config("/weight_block_size", {128}), "weight_block_size", Errc::kUnsupported},
       {config("/weight_block_size", {0, 128}), "weight_block_size", Errc::kUnsupported},
       {config("/weight_block_size", {64, 128}), "expected [4, 4]"},
       {config("/weight_block_size", nullptr), "expected one scale, or [256, 1]"},
       {config("/fmt", "e5m2"), "fmt", Errc::kUnsupported}});
}

TEST(QuantisedFaults, CompressedTensorsFolder_WhenBroken_IsRefusedByTensorOrField) {
  const json weights = {{"num_bits", 4},
                        {"type", "int"},
                        {"strategy", "group"},
                        {"group_size", 128},
                        {"symmetric", true}};
  const json how = {{"quant_method", "compressed-tensors"},
                    {"format", "pack-quantized"},
                    {"config_groups", {{"group_0", {{"weights", weights}}}}}};
  const std::string at = "/config_groups/group_0/weights/";
  expect_refused(
      [](const PlainMatrix& m) { return int_layer(m, {.bits = 4, .group = 128, .packed = true}); },
      how,
      {{erase("weight_shape"), "down_proj.weight_shape\" is missing"},
       {erase("weight_scale"), "down_proj.weight_scale\" is missing"},
       {erase("weight_packed"), "down_proj.weight\" is missing"},
       {overwrite("weight_shape", 8, word(500)), "for [256, 500], the sizes in weight_shape"},
       {overwrite("weight_shape", 12, word(1)), "the sizes in weight_shape"},
       {overwrite("weight_shape", 0, word(255)), "the sizes in weight_shape"},
       {reshape("weight_packed", {128, 128}), "is [128, 128], expected the words of codes"},
       {reshape("weight_scale", {1024}), "expected [256, 4]: a scale for each output and group"},
       {overwrite("weight_scale", 0, std::string("\x80\x7f", 2)), "has the scale inf"},
       {put("weight_zero_point", {"I32", {3, 4}, std::string(48, '\0')}),
        "is [3, 4], expected [32, 4]"},
       {put("weight_g_idx", {"I32", {512}, std::string(2048, '\2')}), "has group 33686018"},
       {config("/format", "sparse-24-bitmask"), "format", Errc::kUnsupported},
       {config("/sparsity_config", {{"format", "sparse-24-bitmask"}}), "sparsity_config",
        Errc::kUnsupported},
       {config("/transform_config", {{"config_groups", {{"u", 1}}}}), "transform_config",
        Errc::kUnsupported},
       {config("/config_groups", json::array()), "config_groups", Errc::kUnsupported},
       {config("/config_groups", json::object()), "a group with weights", Errc::kUnsupported},
       {config((at + "num_bits").c_str(), 3), "weights.num_bits", Errc::kUnsupported},
       {config((at + "num_bits").c_str(), 8), "expected the words of codes of 8 bits"},
       {config((at + "type").c_str(), "float"), "no group of quantization_config",
        Errc::kUnsupported},
       {config((at + "strategy").c_str(), "token"), "strategy", Errc::kUnsupported},
       {config((at + "group_size").c_str(), nullptr), "group_size", Errc::kUnsupported},
       {config((at + "group_size").c_str(), 64), "expected [256, 8]"}});
}

TEST(QuantisedFaults, BitsAndBytesFolder_WhenBroken_IsRefusedByTensorOrField) {
  const json how = {{"quant_method", "bitsandbytes"},
                    {"load_in_4bit", true},
                    {"bnb_4bit_quant_type", "nf4"},
                    {"bnb_4bit_use_double_quant", true}};
  const char* state = "weight.quant_state.bitsandbytes__nf4";
  const auto with_state = [&](const std::string& text) {
    return put(state, {"U8", {text.size()}, text});
  };
  const std::string nan("\x00\x00\xc0\x7f", 4);
  expect_refused(
      [](const PlainMatrix& m) { return bitsandbytes_layer(m, {}); }, how,
      {{erase(state), "quant_state.bitsandbytes__nf4\" is missing"},
       {erase("weight"), "down_proj.weight\" is missing"},
       {erase("weight.absmax"), "absmax\" is missing"},
       {erase("weight.quant_map"), "quant_map\" is missing"},
       {erase("weight.nested_quant_map"), "nested_quant_map\" is missing"},
       {with_state("{"), "valid JSON"},
       {with_state(std::string(5000, ' ')), "has 5000 bytes, expected at most 4096"},
       {with_state(R"({"shape": [256, 511], "blocksize": 64})"), "[256, 511] weights"},
       {with_state(R"({"shape": [1099511627776, 1099511627776], "blocksize": 64})"), "weights"},
       {with_state(R"({"shape": null, "blocksize": 64})"), "has the shape"},
       {with_state(R"({"shape": [256, 512], "blocksize": 0})"), "blocksize"},
       {with_state(R"({"shape": [256, 512], "blocksize": 128})"),
        "is [2048], expected [1024]: one for each block of 128"},
       {put("weight.quant_map", floats_tensor("F32", {8}, std::vector<float>(8))),
        "is [8], expected [16]"},
       {overwrite("weight.quant_map", 0, nan), "or its table holds a NaN"},
       {overwrite("weight.nested_absmax", 4, nan), "or its table holds a NaN"},
       {config("/load_in_8bit", true), "load_in_4bit", Errc::kUnsupported},
       {config("/bnb_4bit_quant_type", "int4"), "nf4 or fp4", Errc::kUnsupported}});
}

TEST(QuantisedFaults, Int8Folder_WhenBroken_IsRefusedByTensor) {
  const json how = {{"load_in_4bit", false}, {"load_in_8bit", true}};  // before quant_method
  expect_refused(int8_scb_layer, how,
                 {{erase("SCB"), "down_proj.SCB\" is missing"},
                  {reshape("SCB", {256, 1}), "is [256, 1], expected [256]"},
                  {overwrite("weight_format", 0, "\1"), "weight_format", Errc::kUnsupported},
                  {overwrite("SCB", 8, std::string("\x00\x00\xc0\x7f", 4)),
                   "down_proj.SCB\" has the scale nan of output 2"}});
}

TEST(QuantisedFaults, Fp4Folder_WhenBroken_IsRefusedByTensorOrField) {
  const json how = {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}};
  expect_refused([](const PlainMatrix& m) { return nvfp4_layer(m, false); }, how,
                 {{erase("weight_scale"), "down_proj.weight_scale\" is missing"},
                  {erase("weight_scale_2"), "down_proj.weight_scale_2\" is missing"},
                  {reshape("weight_scale", {512, 16}), "is [512, 16], expected [256, 32]"},
                  {reshape("weight", {256 * 256 / 4, 4}), "expected rows of whole blocks"},
                  {overwrite("weight_scale", 40, "\x7f"), "holds a NaN"},
                  {overwrite("weight_scale_2", 0, std::string(4, '\0')), "other than 0"},
                  {config("/quant_algo", "W4A16_AWQ"), "quant_algo", Errc::kUnsupported},
                  {config("/group_size", 32), "group_size", Errc::kUnsupported}});
}

/// A tensor of random bytes, type and shape.
StoredFolder::Tensor random_tensor(std::mt19937& random) {
  constexpr std::pair<const char*, std::uint64_t> kTypes[] = {
      {"F32", 4}, {"F16", 2}, {"BF16", 2},    {"I64", 8},     {"I32", 4},
      {"I8", 1},  {"U8", 1},  {"F8_E4M3", 1}, {"F8_E8M0", 1}, {"U32", 4}};
  constexpr std::uint64_t kSizes[] = {0, 1, 2, 3, 4, 16, 32, 64, 127, 128, 256, 512};
  const auto [dtype, bytes] = kTypes[random() % std::size(kTypes)];
  StoredFolder::Tensor out{dtype, {}, ""};
  std::uint64_t n = 1;
  for (std::uint64_t d = random() % 4; d > 0; --d) {
    out.shape.push_back(kSizes[random() % std::size(kSizes)]);
    n *= out.shape.back();
    if (n > 1 << 18) n /= out.shape.back(), out.shape.pop_back();
  }
  out.bytes.resize(n * bytes);
  for (char& c : out.bytes) c = static_cast<char>(random());
  return out;
}

// Nothing is read beyond a tensor's bytes, whatever its type and shape: run under the sanitizers.
TEST(QuantisedFaults, Layer_WithRandomTensors_IsReadOrRefusedWithWords) {
  const json ints = {{"num_bits", 4},
                     {"strategy", "group"},
                     {"group_size", 128},
                     {"symmetric", false},
                     {"actorder", "group"}};
  const std::pair<Quantise, json> forms[] = {
      {[](const PlainMatrix& m) { return gptq_layer(m, {.bits = 3, .act_order = true}); },
       {{"quant_method", "gptq"}, {"bits", 3}, {"group_size", 128}, {"desc_act", true}}},
      {[](const PlainMatrix& m) { return awq_layer(m, 128); }, {{"quant_method", "awq"}}},
      {[](const PlainMatrix& m) { return fp8_layer(m, {.rows = 1}); }, {{"quant_method", "fp8"}}},
      {[](const PlainMatrix& m) {
         return int_layer(
             m, {.bits = 4, .group = 128, .packed = true, .symmetric = false, .act_order = true});
       },
       {{"quant_method", "compressed-tensors"},
        {"format", "pack-quantized"},
        {"config_groups", {{"a", {{"weights", ints}}}}}}},
      {[](const PlainMatrix& m) { return bitsandbytes_layer(m, {}); },
       {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}}},
      {[](const PlainMatrix& m) { return nvfp4_layer(m, false); },
       {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}}};
  std::mt19937 random(7);
  for (const auto& [form, how] : forms) {
    TinyFolder folder, plain;
    folder.quantise(form, how, plain);
    std::vector<std::string> names;
    for (const auto& [name, tensor] : folder.stored().tensors()) {
      if (name.starts_with(kLayer)) names.push_back(name);
    }
    ASSERT_GE(names.size(), 2u);
    int refused = 0;
    for (int round = 0; round < 60; ++round) {
      const std::string& name = names[random() % names.size()];
      const StoredFolder::Tensor before = folder.stored().tensors().at(name);
      StoredFolder::Tensor after = random_tensor(random);
      // Every second one has another content alone, so that the numbers are read.
      if (round % 2 == 0) after = {before.dtype, before.shape, before.bytes};
      for (char& c : after.bytes) c = random() % 8 == 0 ? static_cast<char>(random()) : c;
      folder.stored().put(name, after);
      folder.stored().write();
      const auto opened = open_model(folder.path());
      if (!opened) {
        EXPECT_FALSE(opened.error().what.empty());
        ++refused;
      } else {
        const auto held = gguf::Held::of(*(*opened)->tensor("blk.1.ffn_down.weight"));
        EXPECT_TRUE(held.has_value() || !held.error().what.empty());
        refused += held ? 0 : 1;
      }
      folder.stored().put(name, before);
    }
    EXPECT_GT(refused, 20) << how;
  }
}

TEST(QuantisedFaults, Layer_InTwoFiles_IsRefused) {
  TinyFolder folder, plain;
  const json how = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}};
  folder.quantise([](const PlainMatrix& m) { return awq_layer(m, 128); }, how, plain);
  const TempFolder& temp = folder.temp();
  temp.write("f/a.safetensors", temp.read("f/model.safetensors"));
  const auto tensors = folder.stored().tensors();
  for (const auto& [name, tensor] : tensors) {
    if (!name.ends_with(".qweight")) folder.stored().erase(name);
  }
  folder.stored().write();
  temp.write("f/b.safetensors", temp.read("f/model.safetensors"));
  std::filesystem::remove(temp.at("f/model.safetensors"));
  const json index = {{"weight_map", {{"x", "a.safetensors"}, {"y", "b.safetensors"}}}};
  temp.write("f/model.safetensors.index.json", index.dump());
  const auto opened = open_model(folder.path());
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, Errc::kFileInvalid);
  EXPECT_NE(opened.error().what.find("in two files of the folder"), std::string::npos)
      << opened.error().what;
}

}  // namespace
}  // namespace holdfast::huggingface::quantised_faults_test
