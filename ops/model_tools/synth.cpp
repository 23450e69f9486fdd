#include "ops/model_tools/synth.h"

#include <cmath>

#include "ops/model_tools/quant_mix.h"
#include "ops/model_tools/random_blocks.h"
#include "ops/model_tools/synth_family.h"
#include "shared/gguf/writer.h"
#include "shared/plan/expected.h"

namespace holdfast::cli {
namespace {

using gguf::TensorType;
using plan::ExpectedTensor;
using plan::ModelShape;

/// Shapes of published models, from their configuration files.
struct Preset {
  const char* name;
  const char* architecture;
  std::int64_t layers, width, heads, kv_heads, ff, vocab;
  bool tied;
  float rope_base;
  std::int64_t context;
  float norm_eps;
  bool qkv_bias;
  std::int64_t head_dim;
  bool qk_norm;
  float llama3_factor;  // of the llama 3 rope scaling, 0 = none
  std::int64_t experts = 0, experts_used = 0, expert_ff = 0;
  std::int64_t window = 0;  // on every other layer; such models' positions are stretched by yarn
  std::int64_t shared_ff = 0, dense_layers = 0, groups = 1, groups_used = 1;
  std::int64_t rope_dims = 0;  // 0: whole heads
  // Heads of the recurrent layers (three of four): of values, and of keys; 128 elements each.
  std::int64_t state_heads = 0, state_groups = 0;
  // Latent attention: its rank, and elements of a head's query and result.
  std::int64_t latent = 0, head_key = 0, head_value = 0;
};
constexpr std::int64_t kStateDim = 128, kConvTaps = 4, kAttentionStep = 4;

constexpr Preset kPresets[] = {
    {"tiny", "llama", 2, 64, 4, 2, 128, 320, false, 1e4f, 512, 1e-5f, false, 16, false, 0},
    {"test-llama", "llama", 3, 256, 8, 4, 512, 320, false, 1e4f, 512, 1e-5f, false, 32, false, 0},
    {"test-qwen2", "qwen2", 3, 256, 8, 2, 512, 320, true, 1e6f, 512, 1e-6f, true, 32, false, 0},
    {"test-qwen3", "qwen3", 3, 256, 8, 4, 512, 320, true, 1e6f, 512, 1e-6f, false, 64, true, 0},
    {"test-qwen3moe", "qwen3moe", 3, 256, 8, 4, 512, 320, false, 1e6f, 512, 1e-6f, false, 64, true,
     0, 16, 4, 256},
    {"test-gpt-oss", "gpt-oss", 4,    192, 8,     2, 192, 320, false, 1.5e5f,
     4096,           1e-5f,     true, 32,  false, 0, 16,  4,   192,   64},
    {"smollm2-135m", "llama", 30, 576, 9, 3, 1536, 49152, true, 1e5f, 8192, 1e-5f, false, 64, false,
     0},
    {"qwen2.5-0.5b", "qwen2", 24, 896, 14, 2, 4864, 151936, true, 1e6f, 32768, 1e-6f, true, 64,
     false, 0},
    {"qwen3-0.6b", "qwen3", 28, 1024, 16, 8, 3072, 151936, true, 1e6f, 40960, 1e-6f, false, 128,
     true, 0},
    {"tinyllama-1.1b", "llama", 22, 2048, 32, 4, 5632, 32000, false, 1e4f, 2048, 1e-5f, false, 64,
     false, 0},
    {"qwen2.5-1.5b", "qwen2", 28, 1536, 12, 2, 8960, 151936, true, 1e6f, 32768, 1e-6f, true, 128,
     false, 0},
    {"llama3.2-3b", "llama", 28, 3072, 24, 8, 8192, 128256, true, 5e5f, 131072, 1e-5f, false, 128,
     false, 32},
    {"mistral-7b", "llama", 32, 4096, 32, 8, 14336, 32000, false, 1e6f, 32768, 1e-5f, false, 128,
     false, 0},
    {"llama2-13b", "llama", 40, 5120, 40, 40, 13824, 32000, false, 1e4f, 4096, 1e-5f, false, 128,
     false, 0},
    {"qwen3-30b-a3b", "qwen3moe", 48, 2048, 32, 4, 6144, 151936, false, 1e6f, 40960, 1e-6f, false,
     128, true, 0, 128, 8, 768},
    {"gpt-oss-20b", "gpt-oss", 24,   2880, 64,    8, 2880, 201088, false, 1.5e5f,
     131072,        1e-5f,     true, 64,   false, 0, 32,   4,      2880,  128},
    {"ling-mini-2.0",
     "bailingmoe2",
     20,
     2048,
     16,
     4,
     5120,
     157184,
     false,
     6e5f,
     32768,
     1e-6f,
     false,
     128,
     true,
     0,
     256,
     8,
     512,
     0,
     512,
     1,
     8,
     4,
     64},
    {.name = "qwen3.5-0.8b",
     .architecture = "qwen35",
     .layers = 24,
     .width = 1024,
     .heads = 8,
     .kv_heads = 2,
     .ff = 3584,
     .vocab = 248320,
     .tied = true,
     .rope_base = 1e7f,
     .context = 262144,
     .norm_eps = 1e-6f,
     .qkv_bias = false,
     .head_dim = 256,
     .qk_norm = true,
     .llama3_factor = 0,
     .rope_dims = 64,
     .state_heads = 16,
     .state_groups = 16},
    {.name = "deepseek-v2-lite",
     .architecture = "deepseek2",
     .layers = 27,
     .width = 2048,
     .heads = 16,
     .kv_heads = 1,
     .ff = 10944,
     .vocab = 102400,
     .tied = false,
     .rope_base = 1e4f,
     .context = 163840,
     .norm_eps = 1e-6f,
     .qkv_bias = false,
     .head_dim = 576,
     .qk_norm = false,
     .llama3_factor = 0,
     .experts = 64,
     .experts_used = 6,
     .expert_ff = 1408,
     .shared_ff = 2816,
     .dense_layers = 1,
     .rope_dims = 64,
     .latent = 512,
     .head_key = 192,
     .head_value = 128},
};

const Preset* find_preset(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (name == preset.name) return &preset;
  }
  return nullptr;
}

ModelShape shape_of(const Preset& p) {
  ModelShape shape;
  shape.architecture = p.architecture;
  shape.layers = p.layers;
  shape.width = p.width;
  shape.ff = p.ff;
  shape.heads = p.heads;
  shape.kv_heads = p.kv_heads;
  shape.head_dim = p.head_dim;
  shape.vocab = p.vocab;
  shape.rope_dims = p.rope_dims > 0 ? p.rope_dims : p.head_dim;
  shape.tied_embeddings = p.tied;
  shape.qkv_bias = p.qkv_bias;
  shape.qk_norm = p.qk_norm;
  shape.has_rope_freqs = p.llama3_factor > 0;
  shape.experts = p.experts;
  shape.experts_used = p.experts_used;
  shape.expert_ff = p.expert_ff;
  shape.shared_ff = p.shared_ff;
  shape.dense_layers = p.dense_layers;
  shape.latent = p.latent;
  shape.head_key = p.head_key;
  shape.head_value = p.head_value;
  if (p.state_heads > 0) {
    shape.attention_step = kAttentionStep;
    shape.state_heads = p.state_heads;
    shape.state_groups = p.state_groups;
    shape.state_key = shape.state_value = kStateDim;
    shape.conv_taps = kConvTaps;
  }
  return shape;
}

/// Sets the keys of recurrent layers and of latent attention.
void set_other_layers(gguf::Writer& writer, const Preset& p) {
  const std::string arch = std::string(p.architecture) + ".";
  const auto set = [&](const char* key, std::int64_t v) {
    writer.set_u32(arch + key, static_cast<std::uint32_t>(v));
  };
  if (p.state_heads > 0) {
    set("full_attention_interval", kAttentionStep);
    set("ssm.conv_kernel", kConvTaps);
    set("ssm.inner_size", p.state_heads * kStateDim);
    set("ssm.state_size", kStateDim);
    set("ssm.time_step_rank", p.state_heads);
    set("ssm.group_count", p.state_groups);
    const auto sections = static_cast<std::int32_t>(p.rope_dims / 2);
    writer.set_i32s(arch + "rope.dimension_sections", {sections, 0, 0, 0});
  }
  if (p.latent > 0) {
    set("attention.kv_lora_rank", p.latent);
    set("attention.key_length", p.head_dim);
    set("attention.value_length", p.latent);
    set("attention.key_length_mla", p.head_key);
    set("attention.value_length_mla", p.head_value);
    writer.set_f32(arch + "expert_weights_scale", 1);
    writer.set_string(arch + "rope.scaling.type", "yarn");
    writer.set_f32(arch + "rope.scaling.factor", 40);
    set("rope.scaling.original_context_length", p.context / 40);
    writer.set_f32(arch + "rope.scaling.yarn_log_multiplier", 0.0707f);
  }
}

void set_expert_parameters(gguf::Writer& writer, const Preset& p) {
  const std::string arch = std::string(p.architecture) + ".";
  const auto set = [&](const char* key, std::int64_t v) {
    writer.set_u32(arch + key, static_cast<std::uint32_t>(v));
  };
  if (p.experts > 0) {
    set("expert_count", p.experts);
    set("expert_used_count", p.experts_used);
    set("expert_feed_forward_length", p.expert_ff);
  }
  if (p.shared_ff > 0) {
    set("expert_shared_feed_forward_length", p.shared_ff);
    set("expert_shared_count", p.shared_ff / p.expert_ff);
  }
  if (p.dense_layers > 0) set("leading_dense_block_count", p.dense_layers);
  if (p.groups > 1) {
    set("expert_group_count", p.groups);
    set("expert_group_used_count", p.groups_used);
    set("expert_gating_func", 2);
    writer.set_bool(arch + "expert_weights_norm", true);
    writer.set_f32(arch + "expert_weights_scale", 2.5f);
  }
}

void set_hyper_parameters(gguf::Writer& writer, const Preset& p, const QuantMix& mix) {
  const std::string arch = std::string(p.architecture) + ".";
  const auto set = [&](const char* key, std::int64_t v) {
    writer.set_u32(arch + key, static_cast<std::uint32_t>(v));
  };
  writer.set_string("general.architecture", p.architecture);
  writer.set_string("general.name", std::string(p.name) + "-random");
  set("block_count", p.layers);
  set("context_length", p.context);
  set("embedding_length", p.width);
  set("feed_forward_length", p.ff);
  set("attention.head_count", p.heads);
  set("attention.head_count_kv", p.kv_heads);
  writer.set_f32(arch + "rope.freq_base", p.rope_base);
  writer.set_f32(arch + "attention.layer_norm_rms_epsilon", p.norm_eps);
  set("vocab_size", p.vocab);
  if (p.latent == 0 && (p.head_dim * p.heads != p.width || p.qk_norm)) {
    set("attention.key_length", p.head_dim);
    set("attention.value_length", p.head_dim);
  }
  set("rope.dimension_count", p.rope_dims > 0 ? p.rope_dims : p.head_dim);
  set_expert_parameters(writer, p);
  if (p.window > 0) {
    set("attention.sliding_window", p.window);
    writer.set_string(arch + "rope.scaling.type", "yarn");
    writer.set_f32(arch + "rope.scaling.factor", 32);
    set("rope.scaling.original_context_length", p.context / 32);
  }
  writer.set_u32("general.file_type", mix.file_type);
  if (gguf::type_traits(mix.base)->block_elements > 1) {
    writer.set_u32("general.quantization_version", 2);
  }
}

/// Divisors of the rope frequencies of Llama 3.1 and later: 1 for short wave lengths, `factor` for
/// long ones, a blend between (low factor 1, high factor 4, trained for 8192 positions).
std::vector<float> llama3_rope_factors(const Preset& p) {
  constexpr double kTrained = 8192, kLow = 1, kHigh = 4;
  std::vector<float> out;
  for (std::int64_t i = 0; i < p.head_dim; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(p.head_dim);
    const double wave = 2 * M_PI * std::pow(static_cast<double>(p.rope_base), exponent);
    double divisor = 1;
    if (wave > kTrained / kLow) {
      divisor = p.llama3_factor;
    } else if (wave > kTrained / kHigh) {
      const double blend = (kTrained / wave - kLow) / (kHigh - kLow);
      divisor = 1 / ((1 - blend) / p.llama3_factor + blend);
    }
    out.push_back(static_cast<float>(divisor));
  }
  return out;
}

gguf::Writer::Producer producer(const Preset& p, const ExpectedTensor& tensor, TensorType type,
                                std::uint64_t seed) {
  return [&p, tensor, type, seed](const gguf::Writer::Sink& sink) -> Result<void> {
    FastRandom random(seed, tensor.name);
    if (tensor.name == "rope_freqs.weight") {
      const std::vector<float> factors = llama3_rope_factors(p);
      return sink(std::as_bytes(std::span(factors)));
    }
    if (tensor.name.ends_with("_norm.weight")) {
      return random_vector(tensor.dims[0], 1.0f, 0.1f, random, sink);
    }
    std::uint64_t values = 1;
    for (const std::uint64_t n : tensor.dims) values *= n;
    if (tensor.name.ends_with(".ssm_a")) return random_vector(values, -0.3f, 0.05f, random, sink);
    if (!tensor.is_matrix()) return random_vector(values, 0.0f, 0.02f, random, sink);
    const float sigma = 1.0f / std::sqrt(static_cast<float>(tensor.dims[0]));
    return random_tensor(type, values, sigma, random, sink);
  };
}

std::string join(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

}  // namespace

std::vector<std::string> synth_shapes() {
  std::vector<std::string> out;
  for (const Preset& preset : kPresets) out.emplace_back(preset.name);
  return out;
}

std::vector<std::string> synth_types() {
  std::vector<std::string> out;
  const std::string names = quant_mix_names();
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = std::min(names.find(", ", at), names.size());
    out.push_back(names.substr(at, end - at));
    at = end + 2;
  }
  return out;
}

Result<void> synth(std::string_view shape_name, const std::string& out_path, std::string_view type,
                   std::uint64_t seed,
                   const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  const Preset* preset = find_preset(shape_name);
  if (!preset) {
    return Error{Errc::kUsage, "synth: shape \"" + std::string(shape_name) +
                                   "\" is unknown, expected one of " + join(synth_shapes())};
  }
  const auto mix = find_quant_mix(type);
  if (!mix) {
    return Error{Errc::kUsage, "synth: type \"" + std::string(type) +
                                   "\" is unknown, expected one of " + quant_mix_names()};
  }
  gguf::Writer writer;
  set_hyper_parameters(writer, *preset, *mix);
  set_other_layers(writer, *preset);
  set_synth_tokenizer(writer, preset->vocab);
  const MixModel model{preset->layers, preset->heads, preset->kv_heads, preset->tied,
                       preset->experts};
  plan::Details details;
  details.family = plan::find_family(preset->architecture);
  details.out_bias = details.family->out_bias == plan::Use::kMust;
  details.fused_qkv = details.family->fused_qkv;
  details.choice_bias = preset->groups > 1;
  for (const ExpectedTensor& tensor : plan::expected_tensors(shape_of(*preset), details)) {
    const TensorType chosen = mixed_type(*mix, model, tensor.name, tensor.dims);
    writer.add_tensor(tensor.name, chosen, tensor.dims, producer(*preset, tensor, chosen, seed));
  }
  return writer.write(out_path, progress);
}

}  // namespace holdfast::cli
