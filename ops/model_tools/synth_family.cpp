#include "ops/model_tools/synth_family.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "ops/model_tools/quant_mix.h"
#include "ops/model_tools/random_blocks.h"
#include "shared/plan/expected.h"

namespace holdfast::cli {
namespace {

using plan::Family;
using plan::RopeScaling;
using plan::Use;

constexpr std::int64_t kOriginalContext = 64;  // of yarn and longrope: below the trained context

struct Scaling {
  std::string_view name;
  RopeScaling scaling;
  double factor = 1;
};

constexpr Scaling kScalings[] = {{"linear", RopeScaling::kLinear, 2.5},
                                 {"yarn", RopeScaling::kYarn, 4},
                                 {"llama3", RopeScaling::kLlama3},
                                 {"longrope", RopeScaling::kLongrope}};

/// True for vectors that something is multiplied by: their values lie around one.
bool is_factor(const plan::ExpectedTensor& tensor) {
  const bool norm = tensor.name.find("norm") != std::string::npos &&
                    tensor.name.ends_with(".weight") && !tensor.is_matrix();
  return norm || tensor.name.ends_with(".scale") || tensor.name.ends_with("_scale.weight");
}

/// `still_from_half`: the second half has the factor by which files mark elements that are not
/// rotated.
Result<void> random_rope_factors(std::uint64_t size, bool still_from_half, FastRandom& random,
                                 const gguf::Writer::Sink& sink) {
  std::vector<float> factors(size);
  for (float& f : factors) f = 1 + std::abs(2 * random.normal());
  if (still_from_half) std::fill(factors.begin() + factors.size() / 2, factors.end(), 1e30f);
  return sink(std::as_bytes(std::span(factors)));
}

class TinyModel {
 public:
  TinyModel(const Family& family, bool windows, bool experts, std::uint64_t seed,
            std::string_view scaling)
      : f_(family), seed_(seed), random_(seed, family.name) {
    d_.family = &f_;
    draw_sizes(experts);
    draw_parts(windows, experts);
    draw_scaling(scaling);
  }

  void write_keys(gguf::Writer& w, std::string_view name, const QuantMix& mix) const {
    w.set_string("general.architecture", f_.name);
    w.set_string("general.name", "tiny-" + std::string(name) + "-random");
    w.set_u32("general.file_type", mix.file_type);
    write_sizes(w);
    write_attention(w);
    write_rope(w);
    write_experts(w);
    write_states(w);
    write_latent(w);
    write_uneven(w);
    if (f_.encoder) {
      w.set_bool(key("attention.causal"), false);
      w.set_u32(key("pooling_type"), static_cast<std::uint32_t>((seed_ + 1) % 4));
      w.set_u32("tokenizer.ggml.token_type_count", 2);
    }
    if (f_.scale_keys) {
      w.set_f32(key("embedding_scale"), 3.5f);
      w.set_f32(key("residual_scale"), 0.4f);
      w.set_f32(key("logit_scale"), 1.75f);
      if (seed_ % 2 == 0) w.set_f32(key("attention.scale"), 0.2f);
    }
    if (f_.logit_factor) w.set_f32(key("logit_scale"), 0.625f);
  }

  Result<void> write_tensors(gguf::Writer& w, const QuantMix& mix) const {
    const MixModel model{s_.layers, s_.heads, s_.kv_heads, s_.tied_embeddings};
    for (const plan::ExpectedTensor& t : plan::expected_tensors(s_, d_)) {
      const bool router = t.name.find("ffn_gate_inp") != std::string::npos ||
                          t.name.find("ssm_conv1d") != std::string::npos;
      const bool looked_up = t.name.starts_with("position_") || t.name.starts_with("token_types");
      const auto type =
          router || looked_up ? gguf::TensorType::kF32 : mixed_type(mix, model, t.name, t.dims);
      w.add_tensor(t.name, type, t.dims, producer(t, type));
    }
    for (std::int64_t i = 0; i < s_.left_layers; ++i) {
      const auto width = static_cast<std::uint64_t>(s_.width);
      const plan::ExpectedTensor t{"blk." + std::to_string(s_.layers + i) + ".nextn.eh_proj.weight",
                                   {2 * width, width}};
      w.add_tensor(t.name, gguf::TensorType::kF32, t.dims, producer(t, gguf::TensorType::kF32));
    }
    return {};
  }
  std::int64_t vocab() const { return s_.vocab; }

 private:
  std::string key(const char* suffix) const { return std::string(f_.name) + "." + suffix; }
  std::int64_t draw(std::int64_t least, std::int64_t most) {
    const auto n = static_cast<std::uint64_t>(most - least + 1);
    return least + static_cast<std::int64_t>((random_.next() >> 33) % n);
  }
  bool plain() const { return seed_ == 0; }
  bool odd() const { return seed_ % 5 == 4; }  // sizes that fill neither blocks nor panels
  std::int64_t rows(std::int64_t least, std::int64_t most) {
    return odd() ? draw(8 * least, 8 * most) : 8 * draw(least, most);
  }

  /// Returns the plain model's size, or draws one.
  std::int64_t size(std::int64_t plain_size, std::int64_t least, std::int64_t most) {
    return plain() ? plain_size : draw(least, most);
  }
  std::int64_t size_in_rows(std::int64_t plain_size, std::int64_t least, std::int64_t most) {
    return plain() ? plain_size : rows(least, most);
  }
  struct Range {
    std::int64_t least, most;
  };
  /// Returns the plain model's size, an odd one, or a multiple of `step`.
  std::int64_t size(std::int64_t plain_size, Range odd_sizes, std::int64_t step, Range steps) {
    return plain() ? plain_size : odd_or_multiple(odd_sizes, step, steps);
  }
  std::int64_t odd_or_multiple(Range odd_sizes, std::int64_t step, Range steps) {
    return odd() ? draw(odd_sizes.least, odd_sizes.most) : step * draw(steps.least, steps.most);
  }
  std::int64_t draw_head_dim(std::int64_t plain_size) {
    constexpr std::int64_t kHeadDims[] = {16, 24, 32, 40, 64, 20};
    constexpr std::int64_t kOddHeadDims[] = {6, 10, 18, 22, 34, 50};
    return plain() ? plain_size : (odd() ? kOddHeadDims : kHeadDims)[draw(0, 5)];
  }

  void draw_sizes(bool experts) {
    s_.architecture = f_.name;
    s_.layers = size(3, 2, 7);
    s_.layers = std::max(s_.layers, f_.window_period);  // one layer without a window, too
    s_.kv_heads = size(2, 1, 3);
    s_.heads = s_.kv_heads * size(2, 1, 4);
    s_.head_dim = draw_head_dim(32);
    s_.width = s_.heads * s_.head_dim;
    if (has_independent_head_dim() && !plain()) s_.width = odd_or_multiple({33, 99}, 8, {6, 20});
    if (f_.rope == plan::RopeStyle::kNone) s_.kv_heads = s_.heads;
    s_.ff = size_in_rows(2 * s_.width, 6, 30);
    s_.vocab = 259 + size(61, 0, 90);
    s_.context = 256;
    s_.tied_embeddings = draw_tied();
    draw_states();
    draw_latent();
    if (f_.uneven) draw_uneven(experts);
    if (f_.rope != plan::RopeStyle::kNone && !f_.latent) s_.rope_dims = rotated_dims();
  }

  /// By the seed, only a part of each head is rotated.
  std::int64_t rotated_dims() const {
    const bool part = !plain() && seed_ % 3 == 1 && !f_.temperature && !f_.uneven;
    return part ? s_.head_dim / 4 * 2 : s_.head_dim;
  }

  /// True where published models have a head size of their own: the width need not be heads times
  /// it.
  bool has_independent_head_dim() const {
    return is_one_of({"gpt-oss", "seed_oss", "ernie4_5", "glm4moe", "minimax-m2"}) ||
           f_.name.starts_with("gemma") || f_.name.starts_with("qwen3");
  }

  bool draw_tied() {
    const bool tied = plain() || f_.name.starts_with("gemma") || f_.encoder || draw(0, 1) == 1;
    const bool never = is_one_of({"olmo2", "qwen2moe", "internlm2", "stablelm", "dots1", "glm4moe",
                                  "minimax-m2", "bailingmoe2"});
    return f_.logit_factor || (tied && !never);
  }

  bool is_one_of(std::initializer_list<std::string_view> names) const {
    return std::find(names.begin(), names.end(), f_.name) != names.end();
  }
  bool names_expert_ff() const {
    return f_.name.starts_with("qwen") || f_.dense_first || is_one_of({"gpt-oss", "minimax-m2"});
  }
  /// True if a file gives the shared expert's width as a multiple of the others' width.
  bool counts_shared() const { return f_.dense_first && f_.name != "ernie4_5-moe"; }
  bool wants(Use use) const { return use == Use::kMust || (use == Use::kMay && seed_ % 2 == 1); }

  void draw_parts(bool windows, bool experts) {
    s_.causal = !f_.encoder;
    s_.qkv_bias = wants(f_.qkv_bias);
    s_.qk_norm = has_qk_norm();
    d_.fused_qkv = f_.fused_qkv;
    d_.out_bias = wants(f_.out_bias);
    d_.ffn_bias = wants(f_.ffn_bias) && !experts;
    d_.gate_bias = f_.gated && d_.ffn_bias;
    d_.position_rows = f_.positions ? s_.context : 0;
    d_.type_rows = f_.token_types ? 2 : 0;
    if (windows) d_.window = size(20, 3, 70);
    if (experts && !f_.experts_with_dense_ffn) draw_experts();
  }

  bool has_qk_norm() const {
    return f_.qk_norm != plan::QkNorm::kNone && (!f_.qk_norm_left_out || seed_ % 4 < 2);
  }

  void draw_experts() {
    s_.experts = size(4, 3, 9);
    s_.experts_used = size(2, 1, 3);
    if (f_.expert_groups) {  // 2 to 4 groups of so many
      d_.expert_groups = size(2, 2, 4);
      // No file of a model with latent attention uses all of its groups.
      d_.expert_groups_used = draw(1, d_.expert_groups - (f_.latent ? 1 : 0));
      s_.experts *= d_.expert_groups;
    }
    s_.expert_ff = size_in_rows(64, 3, 10);
    // Files of other families have no key for it: experts are as wide as dense layers would be.
    if (!names_expert_ff() || f_.name == "minimax-m2") s_.expert_ff = s_.ff;
    draw_shared_expert();
    d_.choice_bias = wants(f_.choice_bias);
    if (f_.dense_first) s_.dense_layers = size(1, 0, s_.layers - 1);
    if (f_.next_layers && seed_ % 4 == 3) s_.left_layers = 1;
  }

  void draw_shared_expert() {
    if (f_.shared_expert != Use::kMust && !wants(f_.shared_expert)) return;
    s_.shared_ff = size_in_rows(96, 3, 10);
    if (counts_shared()) s_.shared_ff = s_.expert_ff * shared_experts();
  }

  std::int64_t shared_experts() const { return 1 + static_cast<std::int64_t>(seed_ % 2); }

  void draw_scaling(std::string_view scaling) {
    if (s_.rope_dims == 0) return;
    const auto names = synth_scalings();
    const std::string scaling_name = f_.uneven         ? "llama3"  // by the file's own numbers
                                     : scaling.empty() ? names[seed_ % names.size()]
                                                       : std::string(scaling);
    plan::RopeSpec& r = d_.rope;
    r.base = plain() || seed_ % 2 == 0 ? 10000 : 1000;
    for (const Scaling& each : kScalings) {
      if (scaling_name == each.name) r.scaling = each.scaling, r.factor = each.factor;
    }
    s_.has_rope_freqs = scaling_name == "llama3";
  }

  void write_sizes(gguf::Writer& w) const {
    const auto set = [&](const char* suffix, std::int64_t v) {
      w.set_u32(key(suffix), static_cast<std::uint32_t>(v));
    };
    set("block_count", s_.layers + s_.left_layers);
    if (s_.left_layers > 0) set("nextn_predict_layers", s_.left_layers);
    set("context_length", s_.context);
    set("embedding_length", s_.width);
    if (!f_.uneven) set("feed_forward_length", s_.ff);
    set("attention.head_count", s_.heads);
    if (!f_.uneven) set("attention.head_count_kv", s_.kv_heads);
    set("vocab_size", s_.vocab);
    if (names_head_dim()) {
      set("attention.key_length", s_.head_dim);
      set("attention.value_length", s_.head_dim);
    }
    const bool rms = f_.norm == plan::NormKind::kRms;
    w.set_f32(key(rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon"),
              seed_ % 2 == 0 ? 1e-5f : 1e-3f);
  }

  /// True if the file has keys for it with the other sizes; some files leave out what follows from
  /// the width.
  bool names_head_dim() const {
    if (f_.latent || f_.uneven) return false;
    return s_.width != s_.heads * s_.head_dim || seed_ % 2 == 1;
  }

  void write_attention(gguf::Writer& w) const {
    if (d_.window > 0 && !f_.uneven) {
      w.set_u32(key("attention.sliding_window"), static_cast<std::uint32_t>(d_.window));
    }
    if (f_.attention_cap > 0) w.set_f32(key("attn_logit_softcapping"), 2.5f);
    if (f_.logit_cap > 0 || f_.uneven) w.set_f32(key("final_logit_softcapping"), 4.0f);
  }

  void write_rope(gguf::Writer& w) const {
    if (s_.rope_dims == 0) return;
    if (s_.rope_dims != s_.head_dim || plain()) {
      w.set_u32(key("rope.dimension_count"), static_cast<std::uint32_t>(s_.rope_dims));
    }
    w.set_f32(key("rope.freq_base"), static_cast<float>(d_.rope.base));
    if (f_.temperature) {
      w.set_f32(key("attention.temperature_scale"), 0.3f);
      w.set_f32(key("rope.scaling.yarn_log_multiplier"), seed_ % 2 == 0 ? 1.0f : 0.5f);
    }
    if (f_.rope_sections) {
      const auto third = static_cast<std::int32_t>(s_.rope_dims / 6);
      const auto first = static_cast<std::int32_t>(s_.rope_dims / 2) - 2 * third;
      w.set_i32s(key("rope.dimension_sections"), {first, third, third, 0});
    }
    write_rope_scaling(w);
  }

  void write_rope_scaling(gguf::Writer& w) const {
    const plan::RopeSpec& r = d_.rope;
    const auto set_linear = [&](const char* type) {
      w.set_string(key("rope.scaling.type"), type);
      w.set_f32(key("rope.scaling.factor"), static_cast<float>(r.factor));
    };
    const bool yarn = r.scaling == RopeScaling::kYarn;
    const bool lists = r.scaling == RopeScaling::kLongrope;
    if (r.scaling == RopeScaling::kLinear) set_linear("linear");
    if (yarn) {
      set_linear("yarn");
      if (seed_ % 4 == 1) w.set_f32(key("rope.scaling.attn_factor"), 0.9f);
    }
    if (lists) {
      if (f_.name != "phi3") w.set_string(key("rope.scaling.type"), "longrope");
      w.set_f32(key("rope.scaling.attn_factor"), 1.19f);
    }
    if (yarn || lists || f_.temperature) {
      w.set_u32(key("rope.scaling.original_context_length"), kOriginalContext);
    }
  }

  /// Draws latent attention, before other sizes of positions: only a part of each head is rotated.
  void draw_latent() {
    if (!f_.latent) return;
    s_.kv_heads = 1;
    s_.heads = size(4, 1, 6);
    s_.width = size(128, {33, 99}, 8, {6, 20});
    s_.rope_dims = plain() ? 16 : 2 * draw(3, 10);
    s_.latent = size(64, {9, 70}, 16, {1, 6});
    s_.head_dim = s_.latent + s_.rope_dims;
    s_.head_key = s_.rope_dims + size(32, {5, 40}, 8, {1, 6});
    s_.head_value = size(32, {5, 40}, 8, {1, 6});
    if (seed_ % 2 == 1) s_.q_latent = odd_or_multiple({9, 70}, 16, {1, 5});
    s_.tied_embeddings = false;
  }

  void write_latent(gguf::Writer& w) const {
    if (s_.latent == 0) return;
    const auto set = [&](const char* suffix, std::int64_t v) {
      w.set_u32(key(suffix), static_cast<std::uint32_t>(v));
    };
    if (s_.q_latent > 0) set("attention.q_lora_rank", s_.q_latent);
    set("attention.kv_lora_rank", s_.latent);
    set("attention.key_length", s_.head_dim);
    set("attention.value_length", s_.latent);
    set("attention.key_length_mla", s_.head_key);
    set("attention.value_length_mla", s_.head_value);
    w.set_f32(key("rope.scaling.yarn_log_multiplier"), 0.0707f);
  }

  /// Draws layers of unlike shape; by the seed, layers without a window have keys as values, and
  /// models without experts have layers that read others' pages.
  void draw_uneven(bool experts) {
    s_.layers = size(6, 4, 9);
    s_.heads = plain() ? 4 : 6;
    s_.kv_heads = size(1, 1, 3);
    s_.window_kv_heads = size(2, 1, 3);
    s_.window_head_dim = draw_head_dim(16);
    s_.window_rope_dims = s_.window_head_dim;
    if (experts) {
      s_.experts = draw(3, 9);
      s_.experts_used = draw(1, 3);
      s_.expert_ff = rows(3, 10);
      s_.shared_ff = s_.ff;
      d_.gate_up_experts = seed_ % 4 != 3;
    } else {
      s_.layer_input = size(16, {5, 40}, 8, {1, 5});
      s_.sharing_layers = size(3, 0, s_.layers - 3);
    }
    d_.layer_scale = seed_ % 4 != 1;
    for (std::int64_t l = 0; l < s_.layers; ++l) {
      d_.windowed.push_back(l % 3 != 2);
      const bool has_kv = plan::has_kv_pages(s_, l);
      s_.window_layers += has_kv && d_.windowed.back() ? 1 : 0;
      d_.ff.push_back(has_kv ? s_.ff : 2 * s_.ff);
      d_.keys_for_values.push_back(seed_ % 2 == 1 && !d_.windowed.back());
    }
  }

  void write_uneven(gguf::Writer& w) const {
    if (!f_.uneven) return;
    const auto set = [&](const char* suffix, std::int64_t v) {
      w.set_u32(key(suffix), static_cast<std::uint32_t>(v));
    };
    const auto set_each = [&](const char* suffix, auto number_of) {
      std::vector<std::int32_t> all;
      for (std::int64_t l = 0; l < s_.layers; ++l) {
        all.push_back(static_cast<std::int32_t>(number_of(static_cast<std::size_t>(l))));
      }
      w.set_i32s(key(suffix), all);
    };
    set_each("feed_forward_length", [&](std::size_t l) { return d_.ff[l]; });
    set_each("attention.head_count_kv",
             [&](std::size_t l) { return d_.windowed[l] ? s_.window_kv_heads : s_.kv_heads; });
    w.set_bools(key("attention.sliding_window_pattern"), d_.windowed);
    set("attention.sliding_window", d_.window);
    set("attention.key_length", s_.head_dim);
    set("attention.value_length", s_.head_dim);
    set("attention.key_length_swa", s_.window_head_dim);
    set("attention.value_length_swa", s_.window_head_dim);
    set("rope.dimension_count_swa", s_.window_rope_dims);
    w.set_f32(key("rope.freq_base_swa"), 5000);
    set("attention.shared_kv_layers", s_.sharing_layers);
    set("embedding_length_per_layer_input", s_.layer_input);
    if (s_.experts > 0) set("expert_feed_forward_length", s_.expert_ff);
  }

  void draw_states() {
    if (f_.delta == plan::DeltaNet::kNone) return;
    s_.attention_step = size(4, 2, 4);
    s_.layers = std::max(s_.layers, s_.attention_step);
    s_.state_groups = size(2, 1, 3);
    s_.state_heads = s_.state_groups * size(2, 1, 3);
    // Published models have keys and values of one length.
    s_.state_key = s_.state_value = size(32, {5, 80}, 16, {1, 8});
    s_.conv_taps = size(4, 2, 5);
  }

  void write_states(gguf::Writer& w) const {
    if (s_.attention_step == 0) return;
    const auto set = [&](const char* suffix, std::int64_t v) {
      w.set_u32(key(suffix), static_cast<std::uint32_t>(v));
    };
    if (s_.attention_step != 4) set("full_attention_interval", s_.attention_step);
    set("ssm.conv_kernel", s_.conv_taps);
    set("ssm.inner_size", s_.state_heads * s_.state_value);
    set("ssm.state_size", s_.state_key);
    set("ssm.time_step_rank", s_.state_heads);
    set("ssm.group_count", s_.state_groups);
  }

  void write_experts(gguf::Writer& w) const {
    if (s_.experts == 0) return;
    w.set_u32(key("expert_count"), static_cast<std::uint32_t>(s_.experts));
    w.set_u32(key("expert_used_count"), static_cast<std::uint32_t>(s_.experts_used));
    if (names_expert_ff()) {
      w.set_u32(key("expert_feed_forward_length"), static_cast<std::uint32_t>(s_.expert_ff));
    }
    if (f_.dense_first) {
      w.set_u32(key("leading_dense_block_count"), static_cast<std::uint32_t>(s_.dense_layers));
    }
    write_router(w);
    if (f_.name == "ernie4_5-moe") w.set_u32(key("interleave_moe_layer_step"), 1);
    if (s_.shared_ff > 0) write_shared_expert(w);
    if (seed_ % 4 == 3 || counts_shared()) w.set_f32(key("expert_weights_scale"), 1.5f);
  }

  void write_shared_expert(gguf::Writer& w) const {
    if (counts_shared()) {
      w.set_u32(key("expert_shared_count"), static_cast<std::uint32_t>(shared_experts()));
    } else {
      w.set_u32(key("expert_shared_feed_forward_length"), static_cast<std::uint32_t>(s_.shared_ff));
    }
  }

  void write_router(gguf::Writer& w) const {
    if (counts_shared() && f_.name != "deepseek") {
      w.set_bool(key("expert_weights_norm"), seed_ % 3 != 1);
    }
    if (f_.expert_groups) {
      w.set_u32(key("expert_group_count"), static_cast<std::uint32_t>(d_.expert_groups));
      w.set_u32(key("expert_group_used_count"), static_cast<std::uint32_t>(d_.expert_groups_used));
    }
    const bool sigmoid = f_.router == plan::Router::kSigmoid || (f_.latent && d_.choice_bias);
    if (sigmoid) w.set_u32(key("expert_gating_func"), 2);
  }

  gguf::Writer::Producer producer(const plan::ExpectedTensor& tensor, gguf::TensorType type) const {
    const std::uint64_t seed = seed_;
    const bool still_from_half = f_.uneven && seed_ % 2 == 0;
    // Where scores are not divided by √head_dim the norm of keys makes them small.
    const bool small = f_.attention_scale == 1 && tensor.name.ends_with("attn_k_norm.weight");
    const float mean = small ? 0.25f : 1.0f;
    return [tensor, type, seed, still_from_half,
            mean](const gguf::Writer::Sink& sink) -> Result<void> {
      FastRandom random(seed, tensor.name);
      if (tensor.name.starts_with("rope_f")) {
        return random_rope_factors(tensor.dims[0], still_from_half, random, sink);
      }
      if (is_factor(tensor)) {
        return random_vector(tensor.dims[0], mean, 0.2f * mean, random, sink);
      }
      // Decays of 0.5 to 1 a token.
      if (tensor.name.ends_with(".ssm_a")) {
        return random_vector(tensor.dims[0], -0.3f, 0.1f, random, sink);
      }
      std::uint64_t elements = 1;
      for (const std::uint64_t d : tensor.dims) elements *= d;
      if (!tensor.is_matrix()) return random_vector(elements, 0.0f, 0.3f, random, sink);
      const float sigma = 1.2f / std::sqrt(static_cast<float>(tensor.dims[0]));
      return random_tensor(type, elements, sigma, random, sink);
    };
  }

  const Family& f_;
  std::uint64_t seed_;
  FastRandom random_;
  plan::ModelShape s_;
  plan::Details d_;
};

}  // namespace

std::vector<std::string> synth_architectures() {
  std::vector<std::string> out = {"mistral", "mixtral", "gemma4-moe"};
  for (const Family& family : plan::families()) out.emplace_back(family.name);
  return out;
}

std::vector<std::string> synth_scalings() {
  return {"none", "linear", "yarn", "llama3", "longrope"};
}

namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

Error unknown_name(const char* what, std::string_view name, const std::string& supported) {
  return {Errc::kUsage, "synth: " + std::string(what) + " \"" + std::string(name) +
                            "\" is unknown, expected one of " + supported};
}

const Family* family_of(std::string_view architecture) {
  if (architecture == "mistral" || architecture == "mixtral") return plan::find_family("llama");
  return plan::find_family(architecture == "gemma4-moe" ? "gemma4" : architecture);
}

bool has_windows(const Family& family, std::string_view architecture, std::uint64_t seed) {
  if (architecture == "mistral") return true;
  const bool some_have_none = family.name == "exaone4" && seed % 2 == 1;
  return family.window_period > 0 && family.name != "llama" && !some_have_none;
}

}  // namespace

Result<void> synth_family(std::string_view architecture, const std::string& out_path,
                          std::string_view type, std::uint64_t seed, std::string_view scaling) {
  const Family* family = family_of(architecture);
  if (family == nullptr) {
    return unknown_name("architecture", architecture, joined(synth_architectures()));
  }
  const auto scalings = synth_scalings();
  if (!scaling.empty() && std::find(scalings.begin(), scalings.end(), scaling) == scalings.end()) {
    return unknown_name("scaling", scaling, joined(scalings));
  }
  const auto mix = find_quant_mix(type);
  if (!mix) return unknown_name("type", type, quant_mix_names());
  const bool windows = has_windows(*family, architecture, seed);
  const bool experts =
      architecture == "mixtral" || architecture == "gemma4-moe" || family->experts == Use::kMust;
  const TinyModel model(*family, windows, experts, seed, scaling);
  gguf::Writer writer;
  model.write_keys(writer, architecture, *mix);
  set_synth_tokenizer(writer, model.vocab());
  HOLDFAST_CHECKED(model.write_tensors(writer, *mix));
  return writer.write(out_path, {});
}

}  // namespace holdfast::cli
