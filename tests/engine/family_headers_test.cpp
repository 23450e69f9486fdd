// Goal: headers as they come: keys that are missing, arrays where a number would do, patterns of
// windows by layer, scalings by key. The computation follows the header; what cannot be computed is
// refused by the key's name.
// Method: a tiny model's header changed key by key, against the float64 reference, which reads the
// same header by itself; and where a change must matter, that it does.

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "shared/gguf/writer.h"
#include "tests/engine/family_runs.h"
#include "tests/engine/reference_model.h"

namespace holdfast::family_headers_test {
namespace {

constexpr std::int32_t kTokens = 70;  // above the original context of 64

using gguf::Writer;
using Change = std::function<void(Writer&, const std::string& arch)>;

/// The same file without the keys that end in one of `gone`, then changed.
std::shared_ptr<const gguf::File> changed(const gguf::File& from, const std::set<std::string>& gone,
                                          const Change& change) {
  const std::string arch(from.get_string("general.architecture").value());
  Writer writer;
  for (const std::string& key : from.keys()) {
    if (gone.count(key.substr(key.find('.') + 1)) == 0) writer.copy_key(from, key);
  }
  if (change) change(writer, arch + ".");
  for (const gguf::TensorInfo& t : from.tensors()) {
    if (gone.count(t.name) > 0) continue;
    const std::vector<std::uint64_t> dims(t.dims, t.dims + t.n_dims);
    writer.add_tensor(t.name, t.type, dims,
                      [&t](const Writer::Sink& sink) { return sink(t.data); });
  }
  return gguf::File::from_bytes(writer.to_bytes().value(), "changed.gguf").value();
}

struct Case {
  const char* arch;
  std::set<std::string> gone;
  Change change;
  const char* scaling = "none";
  std::uint64_t seed = 2;
};

std::vector<float> run(const FamilyModel& m) {
  RunOptions options;
  options.threads = 1;
  return run_family(m, options);
}

/// Runs the case against the reference; true if the change changed the result.
bool check(const Case& c, const std::string& what) {
  const FamilyModel before = make_family(c.arch, c.seed, kTokens, "f32", c.scaling);
  const FamilyModel m = family_of(changed(*before.file, c.gone, c.change), kTokens);
  if (m.tokens.empty()) return false;
  reference::Model reference(*m.file, kTokens + 1);
  const auto want =
      m.program.shape.causal ? reference.logits(m.tokens) : reference.hidden(m.tokens);
  const std::vector<float> have = run(m);
  double error = 0, norm = 0;
  std::size_t at = 0;
  for (const auto& row : want) {
    for (const double v : row) {
      const double d = static_cast<double>(have[at++]) - v;
      error += d * d;
      norm += v * v;
    }
  }
  EXPECT_EQ(at, have.size());
  EXPECT_LT(std::sqrt(error / norm), 1e-4) << what;
  return have != run(before);
}

TEST(Headers, GgufKeys_WhenMissing_HaveTheFamilysDefaults) {
  const Case cases[] = {
      {"gemma2", {"attn_logit_softcapping", "final_logit_softcapping"}, {}},
      {"gemma2", {"attention.sliding_window"}, {}},
      {"gemma3", {"attention.sliding_window"}, {}},
      {"phi3", {"attention.sliding_window"}, {}},
      {"gpt-oss", {"attention.sliding_window"}, {}},
      {"glm4moe", {"expert_weights_scale"}, {}},
      {"dots1", {"expert_weights_norm"}, {}},
      {"exaone4", {"attention.sliding_window"}, {}},
      {"cohere2", {"logit_scale"}, {}},
      {"mistral3", {"attention.temperature_scale"}, {}},
      {"mistral3", {"rope.scaling.yarn_log_multiplier"}, {}, "yarn"},
      {"deepseek2", {"rope.scaling.yarn_log_multiplier"}, {}, "yarn"},
      {"granite", {"logit_scale", "residual_scale", "embedding_scale", "attention.scale"}, {}},
      {"llama", {"rope.freq_base"}, {}, "none", 3},
      {"phi3", {"rope.scaling.attn_factor"}, {}, "longrope"},
      {"llama", {"rope.scaling.original_context_length"}, {}, "yarn"},
      {"gpt-oss", {"rope.scaling.original_context_length"}, {}, "yarn"},
      {"gemma4", {"attention.sliding_window"}, {}},
      {"gemma4", {"final_logit_softcapping"}, {}},
      {"gemma4", {"rope.freq_base_swa"}, {}},
  };
  for (const Case& c : cases) EXPECT_TRUE(check(c, c.arch)) << c.arch << " " << *c.gone.begin();
  const Case same[] = {
      {"qwen2moe", {"expert_feed_forward_length", "expert_shared_feed_forward_length"}, {}},
      {"qwen3", {"vocab_size", "attention.head_count_kv.x"}, {}},
      {"olmo2", {"rope.dimension_count", "attention.key_length", "attention.value_length"}, {}},
      {"mixtral", {"vocab_size"}, {}},
      {"bert", {"pooling_type", "attention.causal", "vocab_size"}, {}},
      {"gpt2", {"attention.head_count_kv"}, {}},
      {"glm4moe", {"expert_gating_func", "expert_shared_count"}, {}},
      {"qwen3vl", {"rope.dimension_sections"}, {}},
      {"gemma4",
       {"attention.value_length", "attention.value_length_swa", "rope.dimension_count",
        "rope.dimension_count_swa"},
       {}},
      {"gemma4-moe",
       {"attention.shared_kv_layers", "embedding_length_per_layer_input",
        "expert_feed_forward_length"},
       {}},
  };
  for (const Case& c : same) EXPECT_FALSE(check(c, c.arch)) << c.arch << " " << *c.gone.begin();
}

TEST(Headers, PerLayerArrays_WhenInTheHeader_SetEachLayer) {
  const auto layers_of = [](const char* arch) {
    return static_cast<std::size_t>(make_family(arch, 2, 1).program.shape.layers);
  };
  const auto array_of = [&](const char* arch, const char* key, auto value) -> Change {
    const std::size_t n = layers_of(arch);
    return [=](Writer& w, const std::string& prefix) {
      std::vector<std::int32_t> list;
      for (std::size_t l = 0; l < n; ++l) list.push_back(value(l));
      w.set_i32s(prefix + key, list);
    };
  };
  const auto odd = [](std::size_t l) { return static_cast<std::int32_t>(l % 2); };
  const auto all = [](std::size_t) { return 1; };
  for (const char* arch : {"gemma2", "gemma3", "olmo2", "llama", "qwen3"}) {
    Change pattern = array_of(arch, "attention.sliding_window_pattern", odd);
    const Change both = [=](Writer& w, const std::string& prefix) {
      pattern(w, prefix);
      w.set_u32(prefix + "attention.sliding_window", 11);
    };
    EXPECT_TRUE(check({arch, {}, both}, arch)) << arch;
  }
  EXPECT_TRUE(check({"gemma3", {}, array_of("gemma3", "attention.sliding_window_pattern", all)},
                    "all layers"));
  const FamilyModel m = make_family("qwen3", 2, 1);
  const auto same = [&](std::int64_t v) {
    return [v](std::size_t) { return static_cast<std::int32_t>(v); };
  };
  EXPECT_FALSE(check(
      {"qwen3", {}, array_of("qwen3", "attention.head_count_kv", same(m.program.shape.kv_heads))},
      "kv heads"));
  EXPECT_FALSE(check(
      {"qwen3", {}, array_of("qwen3", "feed_forward_length", same(m.program.shape.ff))}, "ff"));
}

TEST(Headers, GgufKeys_WhenChanged_ChangeTheLogits) {
  const auto set_f32 = [](const char* key, float v) -> Change {
    return [=](Writer& w, const std::string& prefix) { w.set_f32(prefix + key, v); };
  };
  const auto set_u32 = [](const char* key, std::uint32_t v) -> Change {
    return [=](Writer& w, const std::string& prefix) { w.set_u32(prefix + key, v); };
  };
  const auto set_bool = [](const char* key, bool v) -> Change {
    return [=](Writer& w, const std::string& prefix) { w.set_bool(prefix + key, v); };
  };
  const Change llama3 = [](Writer& w, const std::string& prefix) {
    w.set_string(prefix + "rope.scaling.type", "llama3");
    w.set_f32(prefix + "rope.scaling.factor", 8);
    w.set_u32(prefix + "rope.scaling.original_context_length", 64);
  };
  const Case cases[] = {
      {"llama", {}, llama3},
      {"llama", {}, set_f32("attention.scale", 0.3f)},
      {"qwen2", {}, set_f32("attn_logit_softcapping", 1.5f)},
      {"llama", {}, set_f32("final_logit_softcapping", 2.0f)},
      {"llama", {}, set_u32("attention.sliding_window", 9)},
      {"starcoder2", {}, set_u32("attention.sliding_window", 5)},
      {"gemma2", {}, set_u32("attention.sliding_window_pattern", 3)},
      {"gemma3", {}, set_f32("rope.freq_base_swa", 500.0f)},
      {"qwen2moe", {}, set_bool("expert_weights_norm", true)},
      {"qwen3moe", {}, set_bool("expert_weights_norm", false)},
      {"qwen3moe", {}, set_f32("expert_weights_scale", 2.5f)},
      {"mixtral", {}, set_u32("expert_used_count", 1)},
      {"glm4moe", {}, set_u32("expert_gating_func", 1)},
      {"bailingmoe2", {}, set_u32("expert_group_used_count", 2)},
      {"ernie4_5-moe", {}, set_u32("expert_gating_func", 2), "none", 3},
      {"cohere2", {}, set_u32("attention.sliding_window", 0)},
      {"command-r", {}, set_f32("logit_scale", 0.25f)},
      {"granite", {}, set_bool("rope.scaling.finetuned", false)},
      {"llama", {}, set_f32("rope.scaling.yarn_beta_fast", 4.0f), "yarn"},
      {"llama", {}, set_f32("rope.scaling.attn_factor", 0.5f), "linear"},
      {"qwen2", {}, set_u32("rope.scaling.original_context_length", 33), "yarn"},
      {"gemma4", {}, set_f32("attention.scale", 0.3f)},
      {"gemma4", {}, set_u32("attention.sliding_window", 2)},
      {"gemma4", {}, set_u32("rope.dimension_count_swa", 4)},
      {"gemma4-moe", {}, set_u32("expert_used_count", 1)},
  };
  for (const Case& c : cases) EXPECT_TRUE(check(c, c.arch)) << c.arch << " " << &c - cases;
}

TEST(Headers, AttentionScale_ForTheLargestGemmas_UsesRowWidthOverHeads) {
  for (const auto& [arch, layers] : {std::pair{"gemma2", 46}, std::pair{"gemma3", 62}}) {
    const FamilyModel m = make_family(arch, 2, 1);
    plan::ModelShape shape = m.program.shape;
    EXPECT_EQ(plan::read_details(*m.file, shape)->attention_scale, 0) << arch;  // 1 / √head_dim
    shape.layers = layers;
    EXPECT_DOUBLE_EQ(plan::read_details(*m.file, shape)->attention_scale,
                     std::sqrt(double(shape.heads) / double(shape.width)))
        << arch;
  }
}

/// Layers that predict further tokens (nextn) are counted with the others and take no memory; their
/// tensors may be anything.
TEST(Headers, NextnLayers_WhenTheFileHasThem_AreNotComputed) {
  const FamilyModel with = make_family("glm4moe", 3, kTokens), bare = make_family("glm4moe", 2, 1);
  const plan::ModelShape& s = with.program.shape;
  ASSERT_EQ(s.left_layers, 1);
  EXPECT_EQ(bare.program.shape.left_layers, 0);
  const std::string nextn_name = "blk." + std::to_string(s.layers) + ".nextn.eh_proj.weight";
  ASSERT_NE(with.file->tensor(nextn_name), nullptr);
  const auto number = [](std::int64_t layers, std::int64_t left) -> Change {
    return [=](Writer& w, const std::string& prefix) {
      w.set_u32(prefix + "block_count", static_cast<std::uint32_t>(layers));
      w.set_u32(prefix + "nextn_predict_layers", static_cast<std::uint32_t>(left));
    };
  };
  const FamilyModel without =
      family_of(changed(*with.file, {nextn_name}, number(s.layers, 0)), kTokens);
  EXPECT_EQ(without.program.shape.weights_bytes, s.weights_bytes);
  EXPECT_EQ(without.program.shape.parameters, s.parameters);
  EXPECT_EQ(run(without), run(with));
  // Without the key it is a layer like any other, and most of it is missing.
  EXPECT_FALSE(plan::read_shape(*changed(*with.file, {}, number(s.layers + 1, 0))).has_value());
}

/// Published checkpoints may hold keys and values of layers that read those of others.
TEST(Headers, SharedKvTensors_WhenTheFileHasThem_AreNotLoaded) {
  const auto more = [](std::uint32_t sharing) -> Change {
    return [=](Writer& w, const std::string& prefix) {
      w.set_u32(prefix + "attention.shared_kv_layers", sharing);
    };
  };
  const FamilyModel four = make_family("gemma4", 6, kTokens);
  const auto n = static_cast<std::uint32_t>(four.program.shape.sharing_layers);
  const auto fewer = changed(*four.file, {}, more(n + 1));
  const FamilyModel holds = family_of(fewer, kTokens);
  const auto layer = four.program.shape.layers - n - 1;
  std::set<std::string> gone;
  for (const char* name : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"}) {
    gone.insert("blk." + std::to_string(layer) + "." + name);
  }
  const FamilyModel bare = family_of(changed(*fewer, gone, {}), kTokens);
  EXPECT_EQ(holds.program.shape.weights_bytes, bare.program.shape.weights_bytes);
  EXPECT_EQ(holds.program.shape.parameters, bare.program.shape.parameters);
  EXPECT_EQ(run(holds), run(bare));
  EXPECT_NE(run(holds), run(four));
  EXPECT_TRUE(check({"gemma4", {}, more(n + 1), "none", 6}, "more layers that read others"));
}

TEST(Headers, PerLayerKeys_WhenInconsistent_AreRefusedByName) {
  const FamilyModel m = make_family("gemma4", 2, 1);
  const auto layers = static_cast<std::size_t>(m.program.shape.layers);
  const auto refused = [&](const std::string& key, const std::string& why, const Change& change) {
    const auto shape = plan::read_shape(*changed(*m.file, {}, change));
    ASSERT_FALSE(shape.has_value()) << key;
    EXPECT_NE(shape.error().what.find(key), std::string::npos) << shape.error().what;
    EXPECT_NE(shape.error().what.find(why), std::string::npos) << shape.error().what;
  };
  const auto number = [&](const char* key, const char* why, std::int64_t v) {
    refused(key, why, [&](Writer& w, const std::string& prefix) {
      w.set_u32(prefix + key, static_cast<std::uint32_t>(v));
    });
  };
  const auto array = [&](const char* key, const char* why, const std::vector<std::int32_t>& v) {
    refused(key, why, [&](Writer& w, const std::string& prefix) { w.set_i32s(prefix + key, v); });
  };
  const std::vector<std::int32_t> shorter(layers - 1, 1), longer(layers + 1, 1);
  for (const char* key :
       {"feed_forward_length", "attention.head_count_kv", "attention.sliding_window_pattern"}) {
    array(key, "one for each of", shorter);
    array(key, "one for each of", longer);
  }
  array("feed_forward_length", "has 0", std::vector<std::int32_t>(layers, 0));
  array("attention.head_count_kv", "has -1", std::vector<std::int32_t>(layers, -1));
  refused("attention.head_count", "multiple of the 4", [&](Writer& w, const std::string& prefix) {
    w.set_i32s(prefix + "attention.head_count_kv", std::vector<std::int32_t>(layers, 4));
  });
  std::vector<std::int32_t> uneven(layers, 1);
  uneven[1] = 2;  // of two layers with windows
  array("attention.head_count_kv", "differs between layers with a window", uneven);
  const auto all = static_cast<std::int64_t>(layers);
  number("attention.shared_kv_layers", "expected", all);
  number("attention.shared_kv_layers", "no layer of its kind", all - 1);
  number("rope.dimension_count", "even", 3);
  number("rope.dimension_count_swa", "even", 3);
  number("rope.dimension_count_swa", "even number up to", 512);
  number("attention.key_length_swa", "expected", 2000);
  number("attention.value_length_swa", "expected the key length", 2);
  number("attention.value_length", "expected", 2);
  number("embedding_length_per_layer_input", "expected", 1 << 30);
  number("nextn_predict_layers", "", 1);
  for (const char* arch : {"gemma4", "gemma4-moe"}) {
    const FamilyModel whole = make_family(arch, 2, 1);
    const auto shape = plan::read_shape(*changed(*whole.file, {"feed_forward_length"}, {}));
    ASSERT_FALSE(shape.has_value());
    EXPECT_NE(shape.error().what.find("feed_forward_length"), std::string::npos);
  }
}

TEST(Headers, GgufKeys_WhenUnsupported_AreRefusedByName) {
  const auto refused = [](const char* arch, const std::string& key, const Change& change) {
    const FamilyModel m = make_family(arch, 2, 1, "f32", "none");
    const auto shape = plan::read_shape(*changed(*m.file, {}, change));
    ASSERT_FALSE(shape.has_value()) << arch << " " << key;
    EXPECT_NE(shape.error().what.find(key), std::string::npos) << shape.error().what;
  };
  const auto number = [](const char* key, std::uint32_t v) -> Change {
    return [=](Writer& w, const std::string& prefix) { w.set_u32(prefix + key, v); };
  };
  for (const char* key :
       {"attention.max_alibi_bias", "attention.clamp_kqv", "expert_group_count",
        "expert_gating_func", "leading_dense_block_count", "attention.key_length_swa",
        "rope.dimension_count_swa", "attention.shared_kv_layers"}) {
    refused("qwen3moe", key, number(key, 3));
  }
  for (const char* key : {"expert_gating_func", "leading_dense_block_count", "nextn_predict_layers",
                          "expert_group_count", "moe_every_n_layers"}) {
    refused("glm4moe", key, number(key, 30));
  }
  refused("bailingmoe2", "expert_group_count", number("expert_group_count", 60));
  refused("bailingmoe2", "expert_group_used_count", number("expert_group_used_count", 5));
  refused("mistral3", "attention.temperature_scale", number("rope.dimension_count", 4));
  refused("command-r", "residual_scale", number("residual_scale", 3));
  refused("qwen3", "rope.dimension_sections", number("rope.dimension_sections", 8));
  refused("qwen2", "attention.sliding_window", number("attention.sliding_window", 9));
  refused("qwen2", "logit_scale", number("logit_scale", 3));
  refused("bert", "pooling_type", number("pooling_type", 4));
  refused("llama", "causal", [](Writer& w, const std::string& prefix) {
    w.set_bool(prefix + "attention.causal", false);
  });
  refused("llama", "differs between layers", [](Writer& w, const std::string& prefix) {
    w.set_i32s(prefix + "attention.head_count_kv", {1, 2});
  });
  refused("gemma2", "sliding_window_pattern", [](Writer& w, const std::string& prefix) {
    w.set_i32s(prefix + "attention.sliding_window_pattern", {1});
  });
  refused("gpt2", "position_embd", number("context_length", 100'000));
  refused("deepseek2", "attn_k_b", number("attention.head_count_kv", 2));
  for (const char* key : {"attention.key_length", "attention.kv_lora_rank"}) {
    refused("deepseek2", key, number(key, 40));
  }
  for (const char* arch : {"qwen35", "qwen35moe", "qwen3next"}) {
    for (const char* key : {"full_attention_interval", "ssm.time_step_rank", "ssm.group_count",
                            "ssm.inner_size", "ssm.state_size", "ssm.conv_kernel"}) {
      refused(arch, key, number(key, 1'000'003));
    }
    refused(arch, "none of the", number("full_attention_interval", 200));
    refused(arch, "ssm.group_count", number("ssm.group_count", 7));
  }
}

}  // namespace
}  // namespace holdfast::family_headers_test
