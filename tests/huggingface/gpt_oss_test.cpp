// Goal: a folder of gpt-oss, as it is published (experts in MXFP4) or with plain experts, is the
// same model as its GGUF file; a tensor that is missing or of another shape is refused by its name.
// Method: a tiny random GGUF file, whose tensors are put into a folder here as modeling_gpt_oss.py
// of transformers has them (the rows of gate and up by turns, [inputs, outputs], neighbours in a
// byte), read back and computed: bit-identical. A file cannot be made a folder, which is reported.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ops/model_tools/convert.h"
#include "ops/model_tools/synth_family.h"
#include "shared/gguf/quants.h"
#include "tests/huggingface/same_model.h"
#include "tests/huggingface/stored_folder.h"

namespace holdfast::huggingface::gpt_oss_test {
namespace {

using huggingface_test::expect_same_tensors;
using huggingface_test::outputs_of;
using huggingface_test::StoredFolder;
using nlohmann::json;
using Shape = std::vector<std::uint64_t>;
using Tensor = StoredFolder::Tensor;

// Sizes of synth's seed 0.
constexpr std::uint64_t kExperts = 4, kWidth = 128, kFf = 64;

std::vector<float> floats_of(const gguf::TensorInfo& t) {
  std::vector<float> out(t.elements());
  EXPECT_TRUE(gguf::dequantize_row(t.type, t.data.data(), out.data(), out.size()));
  return out;
}

Tensor plain(const std::vector<float>& values, Shape shape) {
  return {"F32", std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4)};
}

class GptOssFolder : public testing::Test {
 protected:
  /// Makes "f", a folder of the file "m.gguf", whose matrices have such types.
  void make(const char* type) {
    ASSERT_TRUE(cli::synth_family("gpt-oss", temp_.at("m.gguf"), type, 0, "yarn").has_value());
    file_ = gguf::File::open(temp_.at("m.gguf")).value();
    // A folder of another model, for its tokenizer.
    ASSERT_TRUE(cli::synth_family("qwen2", temp_.at("q.gguf"), "f32", 0, "none").has_value());
    ASSERT_TRUE(cli::convert_model({temp_.at("q.gguf"), temp_.at("f")}, {}).has_value());
    stored_ = std::make_unique<StoredFolder>(temp_);
    stored_->clear();
    stored_->config() = config();
    for (const gguf::TensorInfo& t : file_->tensors()) {
      if (t.name.find("_exps.") == std::string::npos) stored_->put(name_of(t.name), whole(t));
    }
    for (std::int64_t layer = 0; layer < 3; ++layer) put_experts(layer);
    stored_->write();
  }
  const gguf::TensorInfo& tensor(const std::string& name) const { return *file_->tensor(name); }

  Result<std::shared_ptr<const gguf::File>> open() const { return open_model(temp_.at("f")); }
  /// Expects that the folder is refused with this in the text.
  void refused(Errc code, const std::string& text) const {
    stored_->write();
    const auto opened = open();
    ASSERT_FALSE(opened.has_value()) << text;
    EXPECT_EQ(opened.error().code, code) << opened.error().what;
    EXPECT_NE(opened.error().what.find(text), std::string::npos) << opened.error().what;
  }

  huggingface_test::TempFolder temp_;
  std::shared_ptr<const gguf::File> file_;
  std::unique_ptr<StoredFolder> stored_;

 private:
  static json config() {
    return {{"architectures", {"GptOssForCausalLM"}},
            {"model_type", "gpt_oss"},
            {"attention_bias", true},
            {"hidden_act", "silu"},
            {"hidden_size", kWidth},
            {"intermediate_size", kFf},
            {"layer_types", {"sliding_attention", "full_attention", "sliding_attention"}},
            {"max_position_embeddings", 256},
            {"num_attention_heads", 4},
            {"num_key_value_heads", 2},
            {"num_hidden_layers", 3},
            {"num_local_experts", kExperts},
            {"num_experts_per_tok", 2},
            {"head_dim", 32},
            {"rms_norm_eps", 1e-5},
            {"rope_theta", 10000},
            {"rope_scaling",
             {{"rope_type", "yarn"},
              {"factor", 4.0},
              {"beta_fast", 32.0},
              {"beta_slow", 1.0},
              {"truncate", false},
              {"original_max_position_embeddings", 64}}},
            {"sliding_window", 20},
            {"swiglu_limit", 7.0},
            {"tie_word_embeddings", true},
            {"vocab_size", 320},
            {"quantization_config", {{"quant_method", "mxfp4"}}}};
  }

  static std::string name_of(const std::string& gguf) {
    if (gguf == "token_embd.weight") return "model.embed_tokens.weight";
    if (gguf == "output_norm.weight") return "model.norm.weight";
    const std::size_t dot = gguf.find('.', 4);
    const std::string layer = "model.layers." + gguf.substr(4, dot - 4) + ".";
    const std::string rest = gguf.substr(dot + 1);
    const std::map<std::string, std::string> names = {
        {"attn_norm.weight", "input_layernorm.weight"},
        {"post_attention_norm.weight", "post_attention_layernorm.weight"},
        {"attn_q.weight", "self_attn.q_proj.weight"},
        {"attn_k.weight", "self_attn.k_proj.weight"},
        {"attn_v.weight", "self_attn.v_proj.weight"},
        {"attn_output.weight", "self_attn.o_proj.weight"},
        {"attn_q.bias", "self_attn.q_proj.bias"},
        {"attn_k.bias", "self_attn.k_proj.bias"},
        {"attn_v.bias", "self_attn.v_proj.bias"},
        {"attn_output.bias", "self_attn.o_proj.bias"},
        {"attn_sinks.weight", "self_attn.sinks"},
        {"ffn_gate_inp.weight", "mlp.router.weight"},
        {"ffn_gate_inp.bias", "mlp.router.bias"}};
    return layer + names.at(rest);
  }

  static Tensor whole(const gguf::TensorInfo& t) {
    Shape shape(t.dims, t.dims + t.n_dims);
    std::reverse(shape.begin(), shape.end());
    return plain(floats_of(t), shape);
  }

  void put_experts(std::int64_t layer) {
    const std::string from = "blk." + std::to_string(layer) + ".";
    const std::string to = "model.layers." + std::to_string(layer) + ".mlp.experts.";
    put_biases(to + "gate_up_proj_bias",
               {&tensor(from + "ffn_gate_exps.bias"), &tensor(from + "ffn_up_exps.bias")});
    put_biases(to + "down_proj_bias", {&tensor(from + "ffn_down_exps.bias")});
    put_matrices(to + "gate_up_proj",
                 {&tensor(from + "ffn_gate_exps.weight"), &tensor(from + "ffn_up_exps.weight")});
    put_matrices(to + "down_proj", {&tensor(from + "ffn_down_exps.weight")});
  }

  using Parts = std::vector<const gguf::TensorInfo*>;

  void put_biases(const std::string& name, const Parts& parts) {
    const std::uint64_t n = parts[0]->dims[0];
    std::vector<float> all(kExperts * n * parts.size());
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const std::vector<float> one = floats_of(*parts[p]);
      for (std::size_t i = 0; i < one.size(); ++i) all[i * parts.size() + p] = one[i];
    }
    stored_->put(name, plain(all, {kExperts, n * parts.size()}));
  }

  void put_matrices(const std::string& name, const Parts& parts) {
    if (parts[0]->type == gguf::TensorType::kMXFP4) return put_blocks(name, parts);
    const std::uint64_t inputs = parts[0]->dims[0], rows = parts[0]->dims[1];
    std::vector<float> all(kExperts * inputs * rows * parts.size());
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const std::vector<float> one = floats_of(*parts[p]);
      for (std::uint64_t e = 0; e < kExperts; ++e) {
        for (std::uint64_t r = 0; r < rows; ++r) {
          for (std::uint64_t i = 0; i < inputs; ++i) {
            all[((e * inputs + i) * rows + r) * parts.size() + p] =
                one[(e * rows + r) * inputs + i];
          }
        }
      }
    }
    stored_->put(name, plain(all, {kExperts, inputs, rows * parts.size()}));
  }

  void put_blocks(const std::string& name, const Parts& parts) {
    const std::uint64_t blocks = parts[0]->dims[0] / 32, rows = parts[0]->dims[1];
    std::string codes, scales;
    for (std::uint64_t r = 0; r < kExperts * rows; ++r) {
      for (const gguf::TensorInfo* part : parts) {
        for (std::uint64_t b = 0; b < blocks; ++b) {
          const std::byte* block = part->data.data() + (r * blocks + b) * 17;
          int code[32];
          for (int i = 0; i < 16; ++i) {
            code[i] = static_cast<int>(block[1 + i]) & 15;
            code[i + 16] = static_cast<int>(block[1 + i]) >> 4;
          }
          for (int k = 0; k < 32; k += 2) {
            codes.push_back(static_cast<char>(code[k] | code[k + 1] << 4));
          }
          scales.push_back(static_cast<char>(block[0]));
        }
      }
    }
    stored_->put(name + "_blocks", {"U8", {kExperts, rows * parts.size(), blocks, 16}, codes});
    stored_->put(name + "_scales", {"U8", {kExperts, rows * parts.size(), blocks}, scales});
  }
};

TEST_F(GptOssFolder, PlainExperts_WhenOpened_AreTheSameModel) {
  make("f32");
  const auto folder = open();
  ASSERT_TRUE(folder.has_value()) << folder.error().what;
  expect_same_tensors(*file_, **folder);
  const auto expected = outputs_of(temp_.at("m.gguf"));
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(outputs_of(temp_.at("f")), expected);
}

TEST_F(GptOssFolder, Mxfp4_WhenConverted_RetainsEveryCode) {
  make("mxfp4_moe");
  const auto folder = open();
  ASSERT_TRUE(folder.has_value()) << folder.error().what;
  for (const gguf::TensorInfo& t : file_->tensors()) {
    if (t.name.find("_exps.") == std::string::npos) continue;
    const gguf::TensorInfo* other = (*folder)->tensor(t.name);
    ASSERT_NE(other, nullptr) << t.name;
    EXPECT_EQ(other->type, t.type) << t.name;
    const auto held = gguf::Held::of(*other);
    ASSERT_TRUE(held.has_value());
    ASSERT_EQ(other->data.size(), t.data.size()) << t.name;
    EXPECT_EQ(std::memcmp(other->data.data(), t.data.data(), t.data.size()), 0) << t.name;
  }
  // A file made of it has the same logits, and its types.
  ASSERT_TRUE(cli::convert_model({temp_.at("f"), temp_.at("again.gguf")}, {}).has_value());
  const auto expected = outputs_of(temp_.at("f"));
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(outputs_of(temp_.at("again.gguf")), expected);
}

TEST_F(GptOssFolder, HalfFloats_WhenConverted_AreTheSameModel) {
  make("f32");
  stored_->as_half("BF16");
  stored_->write();
  const auto folder = open();
  ASSERT_TRUE(folder.has_value()) << folder.error().what;
  EXPECT_EQ((*folder)->tensor("blk.1.ffn_up_exps.weight")->type, gguf::TensorType::kBF16);
  EXPECT_EQ((*folder)->tensor("blk.1.ffn_up_exps.bias")->type, gguf::TensorType::kF32);
  EXPECT_EQ((*folder)->tensor("blk.1.attn_sinks.weight")->type, gguf::TensorType::kF32);
  ASSERT_TRUE(cli::convert_model({temp_.at("f"), temp_.at("again.gguf")}, {}).has_value());
  EXPECT_EQ(outputs_of(temp_.at("f")), outputs_of(temp_.at("again.gguf")));
}

TEST_F(GptOssFolder, Experts_WhenMissingOrMisshapen_AreRefusedByName) {
  make("mxfp4_moe");
  const std::string experts = "model.layers.1.mlp.experts.";
  const Tensor scales = stored_->tensors().at(experts + "down_proj_scales");
  const Tensor codes = stored_->tensors().at(experts + "down_proj_blocks");
  stored_->erase(experts + "down_proj_scales");
  refused(Errc::kFileInvalid, "down_proj_blocks\" is there without its scales");
  stored_->put(experts + "down_proj_scales", scales);
  stored_->erase(experts + "down_proj_blocks");
  refused(Errc::kFileInvalid, "down_proj_scales\" is there without the codes");
  stored_->put(experts + "down_proj_blocks", codes);
  stored_->reshape(experts + "down_proj_scales", {kExperts, kWidth * kFf / 32});
  refused(Errc::kFileInvalid, "a scale for each block");
  stored_->put(experts + "down_proj_scales", scales);
  stored_->reshape(experts + "down_proj_blocks", {kExperts / 2, kWidth * 2, kFf / 32, 16});
  refused(Errc::kFileInvalid, "expected [experts, rows, blocks, 16] for 4 experts");
  stored_->put(experts + "down_proj_blocks", plain(std::vector<float>(4), {4}));
  refused(Errc::kUnsupported, "is of type F32, expected U8");
  stored_->put(experts + "down_proj_blocks", codes);
  stored_->put(experts + "gate_up_proj_bias", plain(std::vector<float>(128), {128}));
  refused(Errc::kFileInvalid, "expected [experts, rows] for 4 experts");
}

TEST_F(GptOssFolder, Config_WhenUnsupported_IsRefused) {
  make("mxfp4_moe");
  const json good = stored_->config();
  stored_->config()["swiglu_limit"] = 5.0;
  refused(Errc::kUnsupported, "swiglu_limit");
  stored_->config() = good;
  stored_->config()["rope_scaling"].erase("truncate");
  refused(Errc::kUnsupported, "rope_scaling.truncate is not false");
  stored_->config() = good;
  stored_->config()["quantization_config"]["quant_method"] = "quanto";
  refused(Errc::kUnsupported, "quanto");
  stored_->config()["quantization_config"]["quant_method"] = "gptq";
  refused(Errc::kFileInvalid, "but no layer's tensors are stored so");
}

TEST(GptOssFile, GptOss_WhenConvertedToAFolder_IsRefused) {
  const huggingface_test::TempFolder temp;
  ASSERT_TRUE(cli::synth_family("gpt-oss", temp.at("m.gguf"), "f32", 0, "yarn").has_value());
  const auto made = cli::convert_model({temp.at("m.gguf"), temp.at("f")}, {});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, Errc::kUnsupported);
  EXPECT_NE(made.error().what.find("not written"), std::string::npos) << made.error().what;
}

}  // namespace
}  // namespace holdfast::huggingface::gpt_oss_test
