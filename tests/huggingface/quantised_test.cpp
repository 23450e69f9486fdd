// Goal: a folder of quantised weights is the model that its format's definition says: the weights
// to the error that its type here has, the logits within 1e-3 of their norm (1.5e-3 where weights
// are rounded to halves) of those of a folder with the same numbers as plain floats; a layer that
// is broken is refused by its tensor, and nothing is held. Method: a tiny random folder whose
// matrices are quantised here from the definitions (quantise_tensors.h), and a second one with the
// numbers that the codes stand for.

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ops/model_tools/convert.h"
#include "ops/model_tools/inspect.h"
#include "shared/gguf/made.h"
#include "shared/gguf/quants.h"
#include "shared/huggingface/folder.h"
#include "shared/plan/plan.h"
#include "tests/huggingface/quantise_tensors.h"
#include "tests/huggingface/same_model.h"
#include "tests/huggingface/tiny_folder.h"

namespace holdfast::huggingface::quantised_test {
namespace {

using huggingface_test::outputs_of;
using huggingface_test::PlainMatrix;
using huggingface_test::Quantise;
using huggingface_test::QuantisedLayer;
using huggingface_test::StoredFolder;
using huggingface_test::TinyFolder;
using nlohmann::json;

struct Case {
  const char* name;
  Quantise quantise;
  json config;
  const char* type;    // of GGUF, that the matrices have here
  double error = 0;    // of a weight, as a part of it
  const char* format;  // a part of what users read
  const char* shape = "test-llama";
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

json gptq_config(int bits, int group, bool act_order, bool symmetric, const char* format) {
  return {{"quant_method", "gptq"}, {"bits", bits},     {"group_size", group},
          {"desc_act", act_order},  {"sym", symmetric}, {"checkpoint_format", format}};
}

json awq_config(int group) {
  return {{"quant_method", "awq"},
          {"bits", 4},
          {"group_size", group},
          {"zero_point", true},
          {"version", "gemm"}};
}

json compressed_config(const char* format, const json& weights) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"ignore", {"lm_head"}},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
}

json four_bit_config(const char* type, bool nested) {
  return {{"quant_method", "bitsandbytes"},
          {"load_in_4bit", true},
          {"load_in_8bit", false},
          {"bnb_4bit_quant_type", type},
          {"bnb_4bit_use_double_quant", nested}};
}

constexpr double kHalf = 1.0 / 2048;  // of a value that is rounded to a half

Quantise gptq(const huggingface_test::GptqForm& form) {
  return [form](const PlainMatrix& m) { return gptq_layer(m, form); };
}
Quantise ints(const huggingface_test::IntForm& form) {
  return [form](const PlainMatrix& m) { return int_layer(m, form); };
}
Quantise fp8(const huggingface_test::Fp8Form& form) {
  return [form](const PlainMatrix& m) { return fp8_layer(m, form); };
}
Quantise four_bits(const huggingface_test::FourBitForm& form) {
  return [form](const PlainMatrix& m) { return bitsandbytes_layer(m, form); };
}
Quantise awq(std::size_t group) {
  return [group](const PlainMatrix& m) { return huggingface_test::awq_layer(m, group); };
}
Quantise nvfp4(bool compressed_tensors) {
  return [=](const PlainMatrix& m) { return huggingface_test::nvfp4_layer(m, compressed_tensors); };
}
Quantise one_fp8_scale(const char* part, const std::vector<std::uint64_t>& shape) {
  return fp8({.part = part, .scale_shape = shape});
}
/// One scale a row: the shape is [rows, 1], or [rows].
Quantise fp8_rows(bool flat) {
  return [=](const PlainMatrix& m) {
    huggingface_test::Fp8Form form{.rows = 1, .scale_dtype = "BF16"};
    if (flat) form.scale_shape = {m.rows};
    return fp8_layer(m, form);
  };
}

std::vector<Case> gptq_cases() {
  std::vector<Case> out = {
      {"gptq4", gptq({}), gptq_config(4, 128, false, true, "gptq"), "Q4_0", 0,
       "GPTQ of 4 bits in groups of 128"},
      {"gptq4_group32_asym", gptq({.group = 32, .symmetric = false}),
       gptq_config(4, 32, false, false, "gptq"), "Q8_0", 0, "groups of 32"},
      {"gptq4_v2_asym", gptq({.group = 64, .symmetric = false, .v2 = true}),
       gptq_config(4, 64, false, false, "gptq_v2"), "Q8_0", 0, "groups of 64"},
      {"gptq4_act_order", gptq({.act_order = true}), gptq_config(4, 128, true, true, "gptq"), "F16",
       kHalf, "with act-order"},
      {"gptq4_one_group", gptq({.group = 0}), gptq_config(4, -1, false, true, "gptq"), "Q4_0", 0,
       "GPTQ of 4 bits"},
      {"gptq2", gptq({.bits = 2, .group = 64}), gptq_config(2, 64, false, true, "gptq"), "Q4_0", 0,
       "GPTQ of 2 bits"},
      {"gptq2_asym_act_order", gptq({.bits = 2, .act_order = true, .symmetric = false}),
       gptq_config(2, 128, true, false, "gptq"), "F16", kHalf, "GPTQ of 2 bits"},
      {"gptq3", gptq({.bits = 3}), gptq_config(3, 128, false, true, "gptq"), "Q4_0", 0,
       "GPTQ of 3 bits"},
      {"gptq3_v2_asym", gptq({.bits = 3, .symmetric = false, .v2 = true}),
       gptq_config(3, 128, false, false, "gptq_v2"), "Q4_0", 0, "GPTQ of 3 bits"},
      {"gptq8", gptq({.bits = 8}), gptq_config(8, 128, false, true, "gptq"), "Q8_0", 0,
       "GPTQ of 8 bits"},
      {"gptq8_asym", gptq({.bits = 8, .symmetric = false}),
       gptq_config(8, 128, false, false, "gptq"), "F16", kHalf, "GPTQ of 8 bits"},
      {"gptq4_bf16_scales", gptq({.scale_dtype = "BF16"}), gptq_config(4, 128, false, true, "gptq"),
       "Q4_0", 0, "GPTQ"},
      {"gptq4_f32_scales", gptq({.scale_dtype = "F32"}), gptq_config(4, 128, false, true, "gptq"),
       "Q4_0", kHalf, "GPTQ"},
      {"gptq4_experts", gptq({.group = 64, .symmetric = false}),
       gptq_config(4, 64, false, false, "gptq"), "Q8_0", 0, "GPTQ", "test-qwen3moe"}};
  return out;
}

std::vector<Case> awq_cases() {
  return {{"awq128", awq(128), awq_config(128), "Q8_0", 0, "AWQ of 4 bits in groups of 128"},
          {"awq32", awq(32), awq_config(32), "Q8_0", 0, "groups of 32"},
          {"awq_one_group", awq(0), awq_config(-1), "Q8_0", 0, "AWQ of 4 bits"},
          {"awq_experts", awq(128), awq_config(128), "Q8_0", 0, "AWQ", "test-qwen3moe"}};
}

std::vector<Case> fp8_cases() {
  const json plain = {{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}};
  json blocks = plain;
  blocks["weight_block_size"] = {128, 128};
  json odd = plain;
  odd["weight_block_size"] = {96, 80};
  const json modelopt = {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}};
  const auto inverse = [](std::size_t rows, std::size_t columns, const char* dtype) {
    return fp8({rows, columns, "weight_scale_inv", {}, dtype});
  };
  return {
      {"fp8_blocks", inverse(128, 128, "F32"), blocks, "F16", kHalf, "blocks of 128 by 128"},
      {"fp8_odd_blocks", inverse(96, 80, "BF16"), odd, "F16", kHalf, "blocks of 96 by 80"},
      {"fp8_powers", inverse(128, 128, "F8_E8M0"), blocks, "BF16", 0, "FP8"},
      {"fp8_tensor", one_fp8_scale("weight_scale", {}), plain, "F16", kHalf, "FP8 (E4M3)"},
      {"fp8_tensor_inverse", one_fp8_scale("weight_scale_inv", {1}), plain, "F16", kHalf, "FP8"},
      {"fp8_rows", fp8_rows(false), plain, "F16", kHalf, "FP8"},
      {"fp8_modelopt", one_fp8_scale("weight_scale", {}), modelopt, "F16", kHalf, "ModelOpt's FP8"},
      {"fp8_experts", inverse(128, 128, "F32"), blocks, "F16", kHalf, "FP8", "test-qwen3moe"}};
}

std::vector<Case> compressed_cases() {
  const auto weights = [](int bits, const char* type, const char* strategy, bool symmetric) {
    return json{
        {"num_bits", bits}, {"type", type}, {"strategy", strategy}, {"symmetric", symmetric}};
  };
  const auto grouped = [&](int bits, const char* type, int group, bool symmetric) {
    json out = weights(bits, type, "group", symmetric);
    out["group_size"] = group;
    return out;
  };
  json ordered = grouped(4, "int", 128, true);
  ordered["actorder"] = "group";
  json block = weights(8, "float", "block", true);
  block["block_structure"] = {128, 128};
  const auto mxfp8 = [] { return fp8({1, 32, "weight_scale", {}, "U8"}); };
  return {
      {"pack4", ints({.bits = 4, .group = 128, .packed = true}),
       compressed_config("pack-quantized", grouped(4, "int", 128, true)), "Q4_0", 0,
       "compressed-tensors, pack-quantized: int of 4 bits in groups of 128"},
      {"pack4_asym", ints({.bits = 4, .group = 32, .packed = true, .symmetric = false}),
       compressed_config("pack-quantized", grouped(4, "int", 32, false)), "Q8_0", 0, "int of 4"},
      {"pack4_act_order", ints({.bits = 4, .group = 128, .packed = true, .act_order = true}),
       compressed_config("pack-quantized", ordered), "F16", kHalf, "pack-quantized"},
      {"pack4_channel", ints({.bits = 4, .packed = true}),
       compressed_config("pack-quantized", weights(4, "int", "channel", true)), "Q4_0", 0, "int"},
      {"pack8_channel", ints({.bits = 8, .packed = true}),
       compressed_config("pack-quantized", weights(8, "int", "channel", true)), "Q8_0", 0, "int"},
      {"pack8_asym", ints({.bits = 8, .group = 64, .packed = true, .symmetric = false}),
       compressed_config("pack-quantized", grouped(8, "int", 64, false)), "F16", kHalf, "int"},
      {"int8_channel", ints({}),
       compressed_config("int-quantized", weights(8, "int", "channel", true)), "Q8_0", 0,
       "int of 8 bits"},
      {"int8_tensor", ints({.one_scale = true}),
       compressed_config("naive-quantized", weights(8, "int", "tensor", true)), "Q8_0", 0,
       "naive-quantized"},
      {"int8_asym", ints({.symmetric = false}),
       compressed_config("int-quantized", weights(8, "int", "channel", false)), "F16", kHalf,
       "int"},
      {"int4_bytes", ints({.bits = 4, .group = 64}),
       compressed_config("naive-quantized", grouped(4, "int", 64, true)), "Q4_0", 0, "int"},
      {"float8_channel", fp8_rows(false),
       compressed_config("float-quantized", weights(8, "float", "channel", true)), "F16", kHalf,
       "float of 8 bits"},
      {"float8_tensor", one_fp8_scale("weight_scale", {1}),
       compressed_config("float-quantized", weights(8, "float", "tensor", true)), "F16", kHalf,
       "float"},
      {"float8_block", fp8({.rows = 128, .columns = 128}),
       compressed_config("float-quantized", block), "F16", kHalf, "float"},
      {"mxfp8", mxfp8(), compressed_config("mxfp8-quantized", grouped(8, "float", 32, true)),
       "BF16", 0, "mxfp8-quantized"},
      {"nvfp4_compressed", nvfp4(true),
       compressed_config(
           "nvfp4-pack-quantized",
           {{"num_bits", 4}, {"type", "float"}, {"strategy", "tensor_group"}, {"group_size", 16}}),
       "F16", kHalf, "float of 4 bits in groups of 16"},
      {"mxfp4_compressed", huggingface_test::mxfp4_layer,
       compressed_config("mxfp4-pack-quantized", grouped(4, "float", 32, true)), "MXFP4", 0,
       "mxfp4-pack-quantized"},
      {"pack4_experts", ints({.bits = 4, .group = 128, .packed = true}),
       compressed_config("pack-quantized", grouped(4, "int", 128, true)), "Q4_0", 0, "int",
       "test-qwen3moe"}};
}

std::vector<Case> other_cases() {
  const json eight = {
      {"quant_method", "bitsandbytes"}, {"load_in_4bit", false}, {"load_in_8bit", true}};
  const json modelopt = {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"group_size", 16}};
  return {
      {"nf4", four_bits({.nested = false}), four_bit_config("nf4", false), "F16", kHalf, "NF4"},
      {"nf4_nested", four_bits({}), four_bit_config("nf4", true), "F16", kHalf,
       "NF4 with nested scales"},
      {"nf4_stored_as_bf16", four_bits({.storage = "BF16"}), four_bit_config("nf4", true), "F16",
       kHalf, "NF4"},
      {"fp4", four_bits({.nf4 = false, .nested = false}), four_bit_config("fp4", false), "F16",
       kHalf, "FP4"},
      {"fp4_nested", four_bits({.nf4 = false}), four_bit_config("fp4", true), "F16", kHalf,
       "FP4 with nested scales"},
      {"int8_scb", huggingface_test::int8_scb_layer, eight, "Q8_0", kHalf, "bitsandbytes' INT8"},
      {"nvfp4_modelopt", nvfp4(false), modelopt, "F16", kHalf, "ModelOpt's NVFP4"},
      {"nvfp4_experts", nvfp4(false), modelopt, "F16", kHalf, "NVFP4", "test-qwen3moe"}};
}

std::vector<Case> all_cases() {
  std::vector<Case> out;
  for (auto* part : {gptq_cases, awq_cases, fp8_cases, compressed_cases, other_cases}) {
    for (Case& c : part()) out.push_back(std::move(c));
  }
  return out;
}

std::vector<float> floats_of(const gguf::TensorInfo& tensor) {
  const auto held = gguf::Held::of(tensor);
  EXPECT_TRUE(held.has_value()) << held.error().what;
  std::vector<float> out(tensor.elements());
  if (held) {
    EXPECT_TRUE(gguf::dequantize_row(tensor.type, tensor.data.data(), out.data(), out.size()));
  }
  return out;
}

/// Expects that the matrices of layers have the type, and each weight its value to the error.
void expect_weights(const gguf::File& quantised, const gguf::File& plain, const Case& c) {
  for (const gguf::TensorInfo& expected : plain.tensors()) {
    const gguf::TensorInfo* tensor = quantised.tensor(expected.name);
    ASSERT_NE(tensor, nullptr) << expected.name;
    EXPECT_TRUE(std::equal(expected.dims, expected.dims + 4, tensor->dims)) << expected.name;
    const bool linear = expected.n_dims >= 2 && expected.name.starts_with("blk.") &&
                        expected.name.find("ffn_gate_inp") == std::string::npos;
    EXPECT_EQ(gguf::type_traits(tensor->type)->name, linear ? c.type : "F32") << expected.name;
    const std::vector<float> want = floats_of(expected), got = floats_of(*tensor);
    for (std::size_t i = 0; i < want.size(); ++i) {
      // Below 2^-14 halves are multiples of 2^-24.
      const double bound = c.error == 0 ? 0 : c.error * std::fabs(want[i]) + std::ldexp(1.0, -25);
      ASSERT_LE(std::fabs(want[i] - got[i]), bound)
          << expected.name << " " << i << " " << want[i] << " " << got[i];
    }
  }
}

class QuantisedFolder : public testing::TestWithParam<Case> {};

TEST_P(QuantisedFolder, Folder_WhenOpened_HasTheNumbersOfItsDefinition) {
  const Case& c = GetParam();
  TinyFolder folder(c.shape), plain(c.shape);
  folder.quantise(c.quantise, c.config, plain);
  const auto opened = open_model(folder.path());
  ASSERT_TRUE(opened.has_value()) << opened.error().what;
  const auto floats = open_model(plain.path()).value();
  expect_weights(**opened, *floats, c);
  EXPECT_NE(format_of(**opened).find(c.format), std::string::npos) << format_of(**opened);
  EXPECT_EQ(format_of(*floats), "");
  const auto expected = outputs_of(plain.path()), got = outputs_of(folder.path());
  ASSERT_EQ(got.size(), expected.size());
  ASSERT_FALSE(expected.empty());
  for (std::size_t r = 0; r < expected.size(); ++r) {
    ASSERT_EQ(got[r].size(), expected[r].size());
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < expected[r].size(); ++i) {
      error += std::pow(static_cast<double>(got[r][i]) - expected[r][i], 2);
      norm += std::pow(static_cast<double>(expected[r][i]), 2);
    }
    // Halves round each weight, and the half KV both models' keys and values.
    EXPECT_LT(std::sqrt(error / norm), c.error == 0 ? 1e-3 : 1.5e-3) << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantisedFolder, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// ModelOpt's older exports have their options in a file of their own, and scales that no weight
// needs.
TEST(QuantisedFolder, ModelOptFile_WithoutQuantizationConfig_IsRead) {
  TinyFolder folder, plain;
  folder.quantise(nvfp4(false), nullptr, plain);
  const StoredFolder::Tensor scale = huggingface_test::floats_tensor("F32", {}, {0.5f});
  folder.stored().put("model.layers.0.self_attn.q_proj.input_scale", scale);
  folder.stored().put("model.layers.0.self_attn.k_proj.k_scale", scale);
  folder.stored().write();
  const json file = {{"producer", {{"name", "modelopt"}}},
                     {"quantization", {{"quant_algo", "NVFP4"}, {"kv_cache_quant_algo", "FP8"}}}};
  EXPECT_EQ(open_model(folder.path()).error().code, Errc::kUnsupported);
  folder.temp().write("f/hf_quant_config.json", file.dump());
  const auto opened = open_model(folder.path());
  ASSERT_TRUE(opened.has_value()) << opened.error().what;
  EXPECT_EQ(notes_of(**opened),
            (std::vector<std::string>{
                "weights are ModelOpt's NVFP4, held as F16",
                "left out: scales of activations and KV, which are computed as floats here, 2 "
                "tensors"}));
  const auto files = files_of(folder.path()).value();
  EXPECT_NE(std::find(files.begin(), files.end(), folder.temp().at("f/hf_quant_config.json")),
            files.end());
  folder.temp().write("f/hf_quant_config.json", R"({"quantization": 7})");
  EXPECT_EQ(open_model(folder.path()).error().code, Errc::kFileInvalid);
}

TEST(QuantisedFolder, Inspect_WithAQuantisedFolder_NamesTheFormatAndTheTypes) {
  TinyFolder folder, plain;
  folder.quantise(gptq({}), gptq_config(4, 128, false, true, "gptq"), plain);
  const auto text = cli::inspect_text(folder.path(), 256, 1);
  ASSERT_TRUE(text.has_value()) << text.error().what;
  EXPECT_NE(text->find(": folder of GPTQ of 4 bits in groups of 128, "), std::string::npos)
      << *text;
  EXPECT_NE(text->find("mostly Q4_0"), std::string::npos) << *text;
  const json out = json::parse(cli::inspect_json(folder.path(), 256, 1).value());
  EXPECT_EQ(out["format"], "GPTQ of 4 bits in groups of 128");
  EXPECT_EQ(json::parse(cli::inspect_json(plain.path(), 256, 1).value()).count("format"), 0u);
}

TEST(QuantisedFolder, Folder_WhenConvertedToAFile_HasTheSameLogits) {
  TinyFolder folder, plain;
  folder.quantise(awq(128), awq_config(128), plain);
  const std::string file = folder.temp().at("again.gguf");
  const auto made = cli::convert_model({folder.path(), file}, {});
  ASSERT_TRUE(made.has_value()) << made.error().what;
  const auto expected = outputs_of(folder.path());
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(outputs_of(file), expected);
}

TEST(QuantisedFolder, MemoryEnvelope_ForEachKindOfType_EqualsMemoryTakenOnCpu) {
  for (const Case& c : all_cases()) {
    const std::string name = c.name;
    if (name != "gptq4" && name != "awq128" && name != "fp8_blocks" && name != "pack4_experts" &&
        name != "mxfp4_compressed") {
      continue;
    }
    TinyFolder folder(c.shape), plain(c.shape);
    folder.quantise(c.quantise, c.config, plain);
    const auto file = open_model(folder.path(), Contents::kShapes);
    ASSERT_TRUE(file.has_value()) << file.error().what;
    plan::LoadRequest request;
    request.context = 256;
    request.slots = 2;
    const auto envelope = plan::memory_envelope(plan::read_shape(**file).value(), request);
    engine::EngineOptions options;
    options.device = "cpu";
    options.context = 256;
    options.slots = 2;
    const auto engine = engine::open_engine(folder.path(), options);
    ASSERT_TRUE(engine.has_value()) << engine.error().what;
    const wire::MemoryReport taken = (*engine)->describe().memory;
    EXPECT_EQ(static_cast<std::uint64_t>(taken.weights), envelope.weights) << name;
    EXPECT_EQ(static_cast<std::uint64_t>(taken.kv), envelope.kv) << name;
    EXPECT_EQ(static_cast<std::uint64_t>(taken.scratch), envelope.scratch) << name;
  }
}

/// The bytes of this process that are in memory and of no file.
std::int64_t anonymous_bytes() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
  }
  return 0;
}

// Each layer has three matrices of 8 MiB in FP8, which are 16 MiB as halves.
TEST(QuantisedFolder, Load_OfLargeMatrices_StaysWithinTheEnvelope) {
  constexpr std::uint64_t kWidth = 256, kFf = 32'768, kMatrix = kWidth * kFf;
  TinyFolder folder;
  StoredFolder& stored = folder.stored();
  stored.config()["intermediate_size"] = kFf;
  stored.config()["quantization_config"] = {{"quant_method", "fp8"}};
  for (int layer = 0; layer < 2; ++layer) {
    for (const char* name : {"gate", "up", "down"}) {
      const std::string prefix =
          "model.layers." + std::to_string(layer) + ".mlp." + name + "_proj.weight";
      const bool down = std::string_view(name) == "down";
      const std::uint64_t rows = down ? kWidth : kFf;
      stored.put(prefix, {"F8_E4M3", {rows, kMatrix / rows}, std::string(kMatrix, '\x30')});
      stored.put(prefix + "_scale", huggingface_test::floats_tensor("F32", {1}, {1e-3f}));
    }
  }
  stored.write();
  stored.clear();  // so that only the load takes memory
  const auto file = open_model(folder.path(), Contents::kShapes);
  ASSERT_TRUE(file.has_value()) << file.error().what;
  plan::LoadRequest request;
  request.context = 256;
  request.slots = 2;
  const auto envelope = plan::memory_envelope(plan::read_shape(**file).value(), request);
  ASSERT_GT(envelope.weights, 6 * 2 * kMatrix);
  const std::int64_t before = anonymous_bytes();
  std::int64_t most = 0;
  engine::EngineOptions options;
  options.device = "cpu";
  options.context = 256;
  options.slots = 2;
  options.progress = [&](double) { most = std::max(most, anonymous_bytes() - before); };
  const auto engine = engine::open_engine(folder.path(), options);
  ASSERT_TRUE(engine.has_value()) << engine.error().what;
  EXPECT_GT(most, static_cast<std::int64_t>(envelope.weights / 2));
  // The last large matrix finds no weights after it whose memory it could take.
  EXPECT_GT(envelope.load, 2 * kMatrix - (2u << 20));
  EXPECT_LT(envelope.load, 2 * kMatrix);
  constexpr std::int64_t kNoise = 3 << 20;  // of the engine's tables and the allocator
  EXPECT_LT(most, static_cast<std::int64_t>(envelope.total()) + kNoise);
  EXPECT_GT(most, static_cast<std::int64_t>(envelope.total() - kMatrix));
}

}  // namespace
}  // namespace holdfast::huggingface::quantised_test
