// Goal: a folder of Qwen3.5 is the same model as its GGUF file, also where several heads of values
// share one of keys, which the two have in another order; and a wrong part of it is named. Method:
// tiny random GGUF models (`synth`), split here into the tensors that transformers saves
// (src/transformers/models/qwen3_5/modeling_qwen3_5.py), read as a folder and computed.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "ops/model_tools/convert.h"
#include "ops/model_tools/synth_family.h"
#include "shared/gguf/quants.h"
#include "shared/plan/plan.h"
#include "tests/huggingface/quantise_tensors.h"
#include "tests/huggingface/same_model.h"
#include "tests/huggingface/stored_folder.h"

namespace holdfast::huggingface::recurrent_test {
namespace {

using huggingface_test::StoredFolder;
using nlohmann::json;
using Floats = std::vector<float>;

struct Matrix {
  std::vector<std::uint64_t> shape;  // in the order of transformers
  Floats values;
};

class Taken {
 public:
  Taken(const gguf::File& file, const plan::ModelShape& shape) : file_(file), s_(shape) {}

  Matrix of(const std::string& name) const {
    const gguf::TensorInfo* t = file_.tensor(name);
    CHECK_MSG(t != nullptr, name.c_str());
    Matrix m;
    m.values.resize(t->elements());
    std::memcpy(m.values.data(), t->data.data(), t->data.size());
    for (std::uint32_t d = t->n_dims; d-- > 0;) m.shape.push_back(t->dims[d]);
    return m;
  }
  Matrix less_one(const std::string& name) const {
    Matrix m = of(name);
    for (float& v : m.values) v -= 1;
    return m;
  }
  /// The folder's index of GGUF's `head`-th head of values: it is the (head / groups)-th one of
  /// those that share the head of keys head % groups.
  std::size_t grouped_head(std::size_t head) const {
    const auto groups = static_cast<std::size_t>(s_.state_groups);
    return head % groups * static_cast<std::size_t>(s_.state_heads) / groups + head / groups;
  }
  /// Reorders the heads after row `before`, each of `each` rows.
  Matrix rows(Matrix m, std::size_t before, std::size_t each) const {
    const std::size_t row = m.values.size() / m.shape[0];
    const Floats from = m.values;
    for (std::size_t h = 0; h < static_cast<std::size_t>(s_.state_heads); ++h) {
      std::copy_n(
          from.begin() + static_cast<std::ptrdiff_t>((before + h * each) * row), each * row,
          m.values.begin() + static_cast<std::ptrdiff_t>((before + grouped_head(h) * each) * row));
    }
    return m;
  }
  Matrix columns(Matrix m, std::size_t each) const {
    const Floats from = m.values;
    const std::size_t n = m.shape[1];
    for (std::size_t r = 0; r < m.shape[0]; ++r) {
      for (std::size_t h = 0; h < static_cast<std::size_t>(s_.state_heads); ++h) {
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(r * n + h * each), each,
                    m.values.begin() + static_cast<std::ptrdiff_t>(r * n + grouped_head(h) * each));
      }
    }
    return m;
  }

 private:
  const gguf::File& file_;
  const plan::ModelShape& s_;
};

void put(StoredFolder& folder, const std::string& name, const Matrix& m) {
  folder.put(name, {"F32", m.shape,
                    std::string(reinterpret_cast<const char*>(m.values.data()),
                                m.values.size() * sizeof(float))});
}

void put_gated(StoredFolder& f, const Taken& t, const std::string& from, const std::string& kind,
               const std::string& to) {
  for (const char* part : {"gate", "up", "down"}) {
    put(f, to + part + "_proj.weight", t.of(from + "ffn_" + part + kind + ".weight"));
  }
}

/// Puts all experts into two tensors: each expert's gate above its up part, and the down parts.
void put_experts(StoredFolder& f, const Taken& t, const std::string& from, const std::string& to) {
  const Matrix gate = t.of(from + "ffn_gate_exps.weight"), up = t.of(from + "ffn_up_exps.weight");
  Matrix both{{gate.shape[0], 2 * gate.shape[1], gate.shape[2]}, {}};
  const auto each = static_cast<std::ptrdiff_t>(gate.shape[1] * gate.shape[2]);
  for (std::ptrdiff_t e = 0; e < static_cast<std::ptrdiff_t>(gate.shape[0]); ++e) {
    for (const Matrix* part : {&gate, &up}) {
      const auto first = part->values.begin() + e * each;
      both.values.insert(both.values.end(), first, first + each);
    }
  }
  put(f, to + "experts.gate_up_proj", both);
  put(f, to + "experts.down_proj", t.of(from + "ffn_down_exps.weight"));
  put(f, to + "gate.weight", t.of(from + "ffn_gate_inp.weight"));
  put_gated(f, t, from, "_shexp", to + "shared_expert.");
  Matrix open = t.of(from + "ffn_gate_inp_shexp.weight");
  open.shape.insert(open.shape.begin(), 1);
  put(f, to + "shared_expert_gate.weight", open);
}

void put_layer(StoredFolder& f, const Taken& t, const plan::ModelShape& s, std::int64_t layer) {
  const std::string from = "blk." + std::to_string(layer) + ".";
  const std::string to = "model.language_model.layers." + std::to_string(layer) + ".";
  put(f, to + "input_layernorm.weight", t.less_one(from + "attn_norm.weight"));
  put(f, to + "post_attention_layernorm.weight", t.less_one(from + "post_attention_norm.weight"));
  if (s.experts > 0) {
    put_experts(f, t, from, to + "mlp.");
  } else {
    put_gated(f, t, from, "", to + "mlp.");
  }
  if (!plan::is_recurrent(s, layer)) {
    for (const char* part : {"q", "k", "v"}) {
      put(f, to + "self_attn." + part + "_proj.weight", t.of(from + "attn_" + part + ".weight"));
    }
    put(f, to + "self_attn.o_proj.weight", t.of(from + "attn_output.weight"));
    put(f, to + "self_attn.q_norm.weight", t.less_one(from + "attn_q_norm.weight"));
    put(f, to + "self_attn.k_norm.weight", t.less_one(from + "attn_k_norm.weight"));
    return;
  }
  const std::string net = to + "linear_attn.";
  const auto keys = static_cast<std::size_t>(2 * s.state_groups * s.state_key);
  const auto value = static_cast<std::size_t>(s.state_value);
  put(f, net + "in_proj_qkv.weight", t.rows(t.of(from + "attn_qkv.weight"), keys, value));
  put(f, net + "in_proj_z.weight", t.rows(t.of(from + "attn_gate.weight"), 0, value));
  put(f, net + "in_proj_b.weight", t.rows(t.of(from + "ssm_beta.weight"), 0, 1));
  put(f, net + "in_proj_a.weight", t.rows(t.of(from + "ssm_alpha.weight"), 0, 1));
  Matrix conv = t.rows(t.of(from + "ssm_conv1d.weight"), keys, value);
  conv.shape = {conv.shape[0], 1, conv.shape[1]};
  put(f, net + "conv1d.weight", conv);
  put(f, net + "dt_bias", t.rows(t.of(from + "ssm_dt.bias"), 0, 1));
  Matrix rate = t.rows(t.of(from + "ssm_a"), 0, 1);
  for (float& v : rate.values) v = std::log(-v);
  put(f, net + "A_log", rate);
  put(f, net + "norm.weight", t.of(from + "ssm_norm.weight"));
  put(f, net + "out_proj.weight", t.columns(t.of(from + "ssm_out.weight"), value));
}

/// Makes the folder "f" of the model "m.gguf"; tokenizer files are another model's.
plan::ModelShape make_folder(const huggingface_test::TempFolder& temp, std::uint64_t seed,
                             const std::string& architecture = "qwen35") {
  EXPECT_TRUE(cli::synth_family(architecture, temp.at("m.gguf"), "f32", seed, "none").has_value());
  const auto file = gguf::File::open(temp.at("m.gguf")).value();
  const plan::ModelShape s = plan::read_shape(*file).value();
  const std::string other = temp.at("other.gguf");
  for (std::uint64_t i = 0, tokens = 1'000; tokens > static_cast<std::uint64_t>(s.vocab); ++i) {
    EXPECT_TRUE(cli::synth_family("qwen3", other, "f32", i, "none").has_value());
    tokens = gguf::File::open(other).value()->array_size("tokenizer.ggml.tokens");
  }
  EXPECT_TRUE(cli::convert_model({temp.at("other.gguf"), temp.at("f")}, {}).has_value());
  StoredFolder f(temp);
  f.clear();
  const Taken t(*file, s);
  put(f, "model.language_model.embed_tokens.weight", t.of("token_embd.weight"));
  put(f, "model.language_model.norm.weight", t.less_one("output_norm.weight"));
  if (!s.tied_embeddings) put(f, "lm_head.weight", t.of("output.weight"));
  for (std::int64_t l = 0; l < s.layers; ++l) put_layer(f, t, s, l);
  put(f, "model.visual.patch_embed.proj.weight", Matrix{{1, 1}, {1}});
  put(f, "mtp.fc.weight", Matrix{{1, 1}, {1}});
  json types = json::array();
  for (std::int64_t l = 0; l < s.layers; ++l) {
    types.push_back(plan::is_recurrent(s, l) ? "linear_attention" : "full_attention");
  }
  json text = {{"model_type", "qwen3_5_text"},
               {"vocab_size", s.vocab},
               {"hidden_size", s.width},
               {"intermediate_size", s.ff},
               {"num_hidden_layers", s.layers},
               {"num_attention_heads", s.heads},
               {"num_key_value_heads", s.kv_heads},
               {"head_dim", s.head_dim},
               {"max_position_embeddings", s.context},
               {"rms_norm_eps", s.norm_eps},
               {"hidden_act", "silu"},
               {"attn_output_gate", true},
               {"tie_word_embeddings", s.tied_embeddings},
               {"layer_types", types},
               {"linear_conv_kernel_dim", s.conv_taps},
               {"linear_key_head_dim", s.state_key},
               {"linear_value_head_dim", s.state_value},
               {"linear_num_key_heads", s.state_groups},
               {"linear_num_value_heads", s.state_heads},
               {"rope_parameters",
                {{"rope_type", "default"},
                 {"rope_theta", s.rope_base},
                 {"mrope_interleaved", true},
                 {"mrope_section", {s.rope_dims / 2, 0, 0}},
                 {"partial_rotary_factor",
                  static_cast<double>(s.rope_dims) / static_cast<double>(s.head_dim)}}}};
  if (s.experts > 0) {
    text.erase("intermediate_size");
    text["num_experts"] = s.experts;
    text["num_experts_per_tok"] = s.experts_used;
    text["moe_intermediate_size"] = s.expert_ff;
    text["shared_expert_intermediate_size"] = s.shared_ff;
  }
  f.config() = {{"model_type", s.experts > 0 ? "qwen3_5_moe" : "qwen3_5"},
                {"architectures", {"Qwen3_5ForConditionalGeneration"}},
                {"tie_word_embeddings", s.tied_embeddings},
                {"vision_config", {{"depth", 1}}},
                {"text_config", text}};
  f.write();
  return s;
}

TEST(RecurrentFolder, ConvertedFolder_WhenOpened_IsTheSameModel) {
  bool shared = false;
  for (const std::uint64_t i : {0, 1, 2, 4, 6, 10, 11, 12, 14}) {
    const std::uint64_t seed = i % 10;
    const huggingface_test::TempFolder temp;
    const plan::ModelShape s = make_folder(temp, seed, i < 10 ? "qwen35" : "qwen35moe");
    shared |= s.state_heads > s.state_groups && s.state_groups > 1;
    const auto folder = open_model(temp.at("f"));
    ASSERT_TRUE(folder.has_value()) << folder.error().what;
    const auto expected = huggingface_test::outputs_of(temp.at("m.gguf"));
    const auto have = huggingface_test::outputs_of(temp.at("f"));
    ASSERT_EQ(have.size(), expected.size());
    double error = 0, norm = 0;  // logarithms and norms less 1 are rounded
    for (std::size_t r = 0; r < expected.size(); ++r) {
      for (std::size_t i = 0; i < expected[r].size(); ++i) {
        error += std::pow(static_cast<double>(have[r][i]) - expected[r][i], 2);
        norm += std::pow(static_cast<double>(expected[r][i]), 2);
      }
    }
    EXPECT_LT(std::sqrt(error / norm), 1e-4) << seed;
    // The file made of it is the same to the bit.
    ASSERT_TRUE(cli::convert_model({temp.at("f"), temp.at("again.gguf")}, {}).has_value());
    EXPECT_EQ(huggingface_test::outputs_of(temp.at("again.gguf")), have) << seed;
    const plan::ModelShape b =
        plan::read_shape(**open_model(temp.at("f"), Contents::kShapes)).value();
    EXPECT_EQ(b.attention_step, s.attention_step);
    EXPECT_EQ(b.state_heads, s.state_heads);
    EXPECT_EQ(b.rope_dims, s.rope_dims);
    EXPECT_EQ(b.weights_bytes, s.weights_bytes);
  }
  EXPECT_TRUE(shared);
}

/// Replaces matrices of the folder by FP8 ones, and those of `plain` by their numbers.
void quantise(StoredFolder& f, StoredFolder& plain) {
  const auto tensors = f.tensors();
  for (const auto& [name, tensor] : tensors) {
    if (tensor.shape.size() != 2 || name.find("proj") == std::string::npos ||
        name.find(".layers.") == std::string::npos) {
      continue;
    }
    huggingface_test::PlainMatrix m{tensor.shape[0], tensor.shape[1], {}};
    m.values.resize(m.rows * m.columns);
    std::memcpy(m.values.data(), tensor.bytes.data(), tensor.bytes.size());
    const auto layer = huggingface_test::fp8_layer(m, {.rows = 1});
    f.put(name, layer.parts.at("weight"));
    f.put(name + "_scale", layer.parts.at("weight_scale"));
    plain.put(name, huggingface_test::floats_tensor("F32", tensor.shape, layer.weights));
  }
  f.config()["quantization_config"] = {{"quant_method", "fp8"}};
  f.write();
  plain.write();
}

std::vector<float> floats_of(const gguf::TensorInfo& t) {
  const auto held = gguf::Held::of(t);
  EXPECT_TRUE(held.has_value()) << held.error().what;
  std::vector<float> out(t.elements());
  EXPECT_TRUE(gguf::dequantize_row(t.type, t.data.data(), out.data(), out.size()).has_value());
  return out;
}

TEST(RecurrentFolder, QuantisedMatrices_WithSharedKeys_HaveTheOrderOfPlainOnes) {
  bool shared = false;
  for (const std::uint64_t seed : {0, 1, 2, 4}) {
    const huggingface_test::TempFolder temp, plain_temp;
    const plan::ModelShape s = make_folder(temp, seed);
    make_folder(plain_temp, seed);
    shared |= s.state_heads > s.state_groups && s.state_groups > 1;
    StoredFolder f(temp), plain(plain_temp);
    quantise(f, plain);
    const auto expected = open_model(plain_temp.at("f")).value();
    const auto folder = open_model(temp.at("f"));
    ASSERT_TRUE(folder.has_value()) << folder.error().what;
    int halves = 0;
    for (const gguf::TensorInfo& t : expected->tensors()) {
      const gguf::TensorInfo* other = (*folder)->tensor(t.name);
      ASSERT_NE(other, nullptr) << t.name;
      halves += other->type == gguf::TensorType::kF16 ? 1 : 0;
      const Floats want = floats_of(t), have = floats_of(*other);
      ASSERT_EQ(have.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(have[i], want[i], std::fabs(want[i]) / 2048 + 3e-8) << t.name << " " << i;
      }
    }
    EXPECT_GT(halves, 3 * s.layers);
  }
  EXPECT_TRUE(shared);
}

TEST(RecurrentFolder, Folder_WhenPartsAreWrong_IsRefusedByName) {
  const std::string net = "model.language_model.layers.0.linear_attn.";
  struct Wrong {
    std::function<void(StoredFolder&)> change;
    std::string said;
  };
  const std::vector<Wrong> wrong = {
      {[&](auto& f) { f.erase(net + "A_log"); }, "ssm_a"},
      {[&](auto& f) {
         f.reshape(net + "conv1d.weight", {256, 4});
       },
       "[columns, 1, taps]"},
      {[&](auto& f) { f.add(net + "dt_bias", {3}, 0); }, "heads of"},
      {[&](auto& f) {
         f.add(net + "in_proj_z.weight", {3, 128}, 0);
       },
       "heads of"},
      {[&](auto& f) { f.config()["text_config"]["linear_num_value_heads"] = 3; }, "multiple"},
      {[&](auto& f) { f.config()["text_config"]["attn_output_gate"] = false; }, "attn_output_gate"},
      {[&](auto& f) { f.config()["text_config"]["layer_types"][0] = "sliding_attention"; },
       "linear_attention"},
      {[&](auto& f) { f.config()["text_config"].erase("num_attention_heads"); }, ""}};
  for (const Wrong& w : wrong) {
    const huggingface_test::TempFolder temp;
    make_folder(temp, 0);
    StoredFolder f(temp);
    w.change(f);
    f.write();
    const auto folder = open_model(temp.at("f"));
    const auto read = folder.has_value() ? plan::read_shape(**folder) : folder.error();
    ASSERT_FALSE(read.has_value()) << w.said;
    EXPECT_NE(read.error().what.find(w.said), std::string::npos) << read.error().what;
  }
}

TEST(RecurrentFolder, RecurrentModel_WhenConvertedToAFolder_IsRefused) {
  const huggingface_test::TempFolder temp;
  ASSERT_TRUE(cli::synth_family("qwen35", temp.at("m.gguf"), "f32", 0, "none").has_value());
  const auto made = cli::convert_model({temp.at("m.gguf"), temp.at("f")}, {});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, Errc::kUnsupported);
  EXPECT_NE(made.error().what.find("not written"), std::string::npos) << made.error().what;
}

}  // namespace
}  // namespace holdfast::huggingface::recurrent_test
