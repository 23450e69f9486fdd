// Goal: a synthetic model is a valid model of its shape, its weights have the spread that keeps
// activations in range, its bytes depend on the seed alone, and its mix of types is the one of
// llama.cpp's quantizer.
// Method: write small shapes in every type, read them with the reader and read_shape, measure;
// compare type choices with tables read off files of that quantizer.

#include "ops/model_tools/synth.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "ops/model_tools/inspect.h"
#include "ops/model_tools/quant_mix.h"
#include "ops/model_tools/synth_family.h"
#include "shared/gguf/quants.h"
#include "shared/plan/plan.h"

namespace holdfast::cli::synth_test {
namespace {

using gguf::File;
using gguf::TensorInfo;
using gguf::TensorType;

class TempFile {
 public:
  explicit TempFile(const std::string& name)
      : path_((std::filesystem::temp_directory_path() /
               ("holdfast-synth-" + std::to_string(::getpid()) + "-" + name))
                  .string()) {}
  ~TempFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Spread {
  double mean;
  double sigma;
};
Spread spread_of(const TensorInfo& tensor) {
  std::vector<float> values(tensor.elements());
  EXPECT_TRUE(dequantize_row(tensor.type, tensor.data.data(), values.data(), values.size()));
  double sum = 0, squares = 0;
  for (const float v : values) {
    EXPECT_TRUE(std::isfinite(v));
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  const auto n = static_cast<double>(values.size());
  return {sum / n, std::sqrt(squares / n - sum / n * (sum / n))};
}

TEST(Synth, Synth_WithEveryType_GivesAModelWithTheRightSpread) {
  const TempFile file("types.gguf");
  for (const std::string& type : synth_types()) {
    ASSERT_TRUE(synth("test-llama", file.path(), type, 1, {}).has_value()) << type;
    const auto opened = File::open(file.path());
    ASSERT_TRUE(opened.has_value()) << opened.error().what;
    const auto shape = plan::read_shape(**opened);
    ASSERT_TRUE(shape.has_value()) << shape.error().what;
    EXPECT_EQ(shape->layers, 3);
    for (const TensorInfo& tensor : (*opened)->tensors()) {
      const Spread spread = spread_of(tensor);
      const std::string what = type + " " + tensor.name;
      if (tensor.n_dims < 2) {
        EXPECT_NEAR(spread.mean, 1.0, 0.03) << what;
        EXPECT_NEAR(spread.sigma, 0.1, 0.02) << what;
        continue;
      }
      const double want = 1 / std::sqrt(static_cast<double>(tensor.dims[0]));
      EXPECT_NEAR(spread.sigma / want, 1.0, 0.06) << what;
      EXPECT_LT(std::abs(spread.mean), 0.05 * want) << what;
    }
  }
}

TEST(Synth, Synth_WithTheSameSeed_GivesSameBytes) {
  const TempFile a("a.gguf"), b("b.gguf"), c("c.gguf");
  ASSERT_TRUE(synth("tiny", a.path(), "q4_0", 5, {}));
  ASSERT_TRUE(synth("tiny", b.path(), "q4_0", 5, {}));
  ASSERT_TRUE(synth("tiny", c.path(), "q4_0", 6, {}));
  EXPECT_EQ(contents(a.path()), contents(b.path()));
  EXPECT_NE(contents(a.path()), contents(c.path()));
  EXPECT_EQ(contents(a.path()).size(), contents(c.path()).size());
}

TEST(Synth, Synth_WithEveryArchitecture_HasAReadableShape) {
  const TempFile file("shapes.gguf");
  for (const std::string shape :
       {"tiny", "test-llama", "test-qwen2", "test-qwen3", "test-qwen3moe"}) {
    ASSERT_TRUE(synth(shape, file.path(), "q8_0", 1, {}).has_value());
    const auto opened = File::open(file.path());
    ASSERT_TRUE(opened.has_value()) << opened.error().what;
    const auto read = plan::read_shape(**opened);
    ASSERT_TRUE(read.has_value()) << read.error().what;
    EXPECT_EQ(read->name, shape + "-random");
    EXPECT_EQ(read->qkv_bias, shape == "test-qwen2");
    EXPECT_EQ(read->qk_norm, shape.starts_with("test-qwen3"));
    EXPECT_EQ(read->experts, shape.ends_with("moe") ? 16 : 0);
    EXPECT_TRUE(read->has_tokenizer);
    EXPECT_TRUE(read->has_chat_template);
    EXPECT_EQ((*opened)->array_size("tokenizer.ggml.tokens"), 320u);
  }
}

TEST(Synth, AName_WhenUnknown_IsAUsageErrorThatListsTheValidOnes) {
  const auto shape = synth("gpt-5", "/nonexistent/x", "q8_0", 1, {});
  ASSERT_FALSE(shape.has_value());
  EXPECT_EQ(shape.error().code, Errc::kUsage);
  EXPECT_NE(shape.error().what.find("smollm2-135m"), std::string::npos);
  const auto type = synth("tiny", "/nonexistent/x", "q9", 1, {});
  ASSERT_FALSE(type.has_value());
  EXPECT_EQ(type.error().code, Errc::kUsage);
  EXPECT_NE(type.error().what.find("q4_k_m"), std::string::npos);
  EXPECT_EQ(synth("tiny", "/nonexistent/x", "q8_0", 1, {}).error().code, Errc::kIo);
}

/// The same shape and mix have the same types where the files of another quantizer are present.
TEST(SynthConformance, QuantMix_WithEveryType_EqualsLlamaCpps) {
  const char* env = std::getenv("HOLDFAST_CONFORMANCE_DIR");
  const std::string folder =
      std::string(env ? env : HOLDFAST_SOURCE_DIR "/../shared/conformance") + "/logits/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  const TempFile file("mix.gguf");
  int compared = 0;
  for (const std::string& type : synth_types()) {
    std::string upper = type;
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const std::string reference = folder + "llama-" + upper + ".gguf";
    if (!std::filesystem::exists(reference)) continue;
    const auto theirs = File::open(reference);
    ASSERT_TRUE(theirs.has_value()) << theirs.error().what;
    ASSERT_TRUE(synth("test-llama", file.path(), type, 1, {}).has_value());
    const auto ours = File::open(file.path());
    ASSERT_TRUE(ours.has_value());
    ASSERT_EQ((*ours)->tensors().size(), (*theirs)->tensors().size());
    for (const TensorInfo& tensor : (*theirs)->tensors()) {
      const TensorInfo* mine = (*ours)->tensor(tensor.name);
      ASSERT_NE(mine, nullptr) << tensor.name;
      EXPECT_EQ(type_traits(mine->type)->name, type_traits(tensor.type)->name)
          << type << " " << tensor.name;
    }
    EXPECT_EQ((*ours)->get_u64("general.file_type"), (*theirs)->get_u64("general.file_type"));
    ++compared;
  }
  EXPECT_GE(compared, 12);
}

// Qwen2.5-0.5B in Q4_K_M, whose rows of 896 do not fill blocks of 256: types of published files.
TEST(QuantMix, MixedType_WhenRowsDoNotFitBlocks_FallsBack) {
  const QuantMix mix = find_quant_mix("Q4_K_M").value();
  const MixModel model{24, 14, 2, true};
  const auto type = [&](const char* name, std::uint64_t columns) {
    return mixed_type(mix, model, name, {columns, 64});
  };
  EXPECT_EQ(type("token_embd.weight", 896), TensorType::kQ8_0);
  EXPECT_EQ(type("blk.5.attn_q.weight", 896), TensorType::kQ5_0);
  EXPECT_EQ(type("blk.0.attn_v.weight", 896), TensorType::kQ8_0);
  EXPECT_EQ(type("blk.0.ffn_down.weight", 4864), TensorType::kQ6_K);
  EXPECT_EQ(type("blk.3.ffn_down.weight", 4864), TensorType::kQ4_K);
  EXPECT_EQ(type("blk.5.ffn_down.weight", 4864), TensorType::kQ6_K);
  EXPECT_EQ(type("blk.21.ffn_down.weight", 4864), TensorType::kQ6_K);
  EXPECT_EQ(type("blk.3.ffn_gate.weight", 100), TensorType::kF16);
  EXPECT_EQ(mixed_type(mix, model, "blk.3.attn_q.bias", {896}), TensorType::kF32);
  const QuantMix plain = find_quant_mix("f16").value();
  EXPECT_EQ(mixed_type(plain, model, "token_embd.weight", {896, 64}), TensorType::kF16);
  EXPECT_EQ(find_quant_mix("q4_k_x"), std::nullopt);
}

TEST(Inspect, Inspect_WithTheDemoModel_ShowsShapeMemoryAndTensors) {
  const std::string demo = HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf";
  const auto text = inspect_text(demo, 256, 4);
  ASSERT_TRUE(text.has_value()) << text.error().what;
  for (const char* part : {"architecture llama", "memory for 4 streams of 256 tokens", "47 tensors",
                           "token_embd.weight", "1024 x string"}) {
    EXPECT_NE(text->find(part), std::string::npos) << part << "\n" << *text;
  }
  const auto json = inspect_json(demo, 256, 4);
  ASSERT_TRUE(json.has_value());
  for (const char* part : {"\"model\":{", "\"memory\":{", "\"version\":3", "\"streams\":4"}) {
    EXPECT_NE(json->find(part), std::string::npos) << part;
  }
  EXPECT_EQ(inspect_text("/nonexistent.gguf", 0, 0).error().code, Errc::kIo);
}

TEST(Inspect, Inspect_WhenLayersDiffer_ShowsEachKind) {
  const TempFile file("kinds");
  const auto shows = [&](const char* architecture, std::initializer_list<const char*> parts) {
    ASSERT_TRUE(synth_family(architecture, file.path(), "f32", 0).has_value());
    const auto text = inspect_text(file.path(), 256, 4);
    ASSERT_TRUE(text.has_value()) << text.error().what;
    for (const char* part : parts) EXPECT_NE(text->find(part), std::string::npos) << *text;
  };
  shows("gemma4", {"heads 4 (kv 1) of 32", "windowed layers: heads 4 (kv 2) of 16; 2 of the 3",
                   "layers that read the KV of others 3", "inputs of each layer 16"});
  shows("gemma4-moe", {"windowed layers: heads 4 (kv 2) of 16; 4 of the 6", "experts 8"});
}

}  // namespace
}  // namespace holdfast::cli::synth_test
