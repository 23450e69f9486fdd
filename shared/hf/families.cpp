#include "shared/hf/families.h"

#include <charconv>

namespace holdfast::hf {
namespace {

std::vector<TensorRule> llama_like(Change q, Change k, bool head_norms) {
  std::vector<TensorRule> out = {
      {"model.embed_tokens.weight", "token_embd.weight"},
      {"model.norm.weight", "output_norm.weight"},
      {"lm_head.weight", "output.weight"},
      {"model.layers.%.input_layernorm.weight", "blk.%.attn_norm.weight"},
      {"model.layers.%.self_attn.q_proj.weight", "blk.%.attn_q.weight", q},
      {"model.layers.%.self_attn.k_proj.weight", "blk.%.attn_k.weight", k},
      {"model.layers.%.self_attn.v_proj.weight", "blk.%.attn_v.weight"},
      {"model.layers.%.self_attn.o_proj.weight", "blk.%.attn_output.weight"},
      {"model.layers.%.post_attention_layernorm.weight", "blk.%.ffn_norm.weight"},
      {"model.layers.%.mlp.gate_proj.weight", "blk.%.ffn_gate.weight"},
      {"model.layers.%.mlp.up_proj.weight", "blk.%.ffn_up.weight"},
      {"model.layers.%.mlp.down_proj.weight", "blk.%.ffn_down.weight"},
  };
  out.push_back({"model.layers.%.self_attn.q_proj.bias", "blk.%.attn_q.bias", q});
  out.push_back({"model.layers.%.self_attn.k_proj.bias", "blk.%.attn_k.bias", k});
  out.push_back({"model.layers.%.self_attn.v_proj.bias", "blk.%.attn_v.bias"});
  if (head_norms) {
    out.push_back({"model.layers.%.self_attn.q_norm.weight", "blk.%.attn_q_norm.weight"});
    out.push_back({"model.layers.%.self_attn.k_norm.weight", "blk.%.attn_k_norm.weight"});
  }
  return out;
}

void rename(std::vector<TensorRule>& rules, std::string_view from, const char* to) {
  for (TensorRule& rule : rules) {
    if (std::string_view(rule.hf).ends_with(from)) rule.gguf = to;
  }
}

/// Norms that are stored less 1; those behind the blocks where `branches` (gemma 2 and 3).
std::vector<TensorRule> gemma_like(bool branches, bool head_norms) {
  std::vector<TensorRule> out = llama_like(Change::kNone, Change::kNone, head_norms);
  if (branches) {
    rename(out, "post_attention_layernorm.weight", "blk.%.post_attention_norm.weight");
    out.push_back({"model.layers.%.pre_feedforward_layernorm.weight", "blk.%.ffn_norm.weight"});
    out.push_back(
        {"model.layers.%.post_feedforward_layernorm.weight", "blk.%.post_ffw_norm.weight"});
  }
  for (TensorRule& rule : out) {
    if (std::string_view(rule.gguf).ends_with("norm.weight")) rule.change = Change::kPlusOne;
  }
  return out;
}

/// Norms behind the blocks alone, and over the heads of a token together.
std::vector<TensorRule> olmo2_like() {
  std::vector<TensorRule> out = llama_like(Change::kNone, Change::kNone, true);
  rename(out, "post_attention_layernorm.weight", "blk.%.post_attention_norm.weight");
  out.push_back({"model.layers.%.post_feedforward_layernorm.weight", "blk.%.post_ffw_norm.weight"});
  std::erase_if(out, [](const TensorRule& rule) {
    return std::string_view(rule.gguf).ends_with("attn_norm.weight");
  });
  return out;
}

/// Fused matrices.
std::vector<TensorRule> phi3_like() {
  std::vector<TensorRule> out = llama_like(Change::kNone, Change::kNone, false);
  std::erase_if(out, [](const TensorRule& rule) {
    const std::string_view name = rule.hf;
    return name.find("q_proj") != name.npos || name.find("k_proj") != name.npos ||
           name.find("v_proj") != name.npos || name.find("gate_proj") != name.npos ||
           name.find("up_proj") != name.npos;
  });
  out.push_back({"model.layers.%.self_attn.qkv_proj.weight", "blk.%.attn_qkv.weight"});
  out.push_back({"model.layers.%.self_attn.qkv_proj.bias", "blk.%.attn_qkv.bias"});
  out.push_back({"model.layers.%.mlp.gate_up_proj.weight", "blk.%.ffn_up.weight"});
  return out;
}

const std::vector<Family>& families() {
  static const std::vector<TensorRule> pairs = [] {
    auto out = llama_like(Change::kPermuteQ, Change::kPermuteK, false);
    out.push_back({"model.layers.%.self_attn.o_proj.bias", "blk.%.attn_output.bias"});
    out.push_back({"model.layers.%.mlp.gate_proj.bias", "blk.%.ffn_gate.bias"});
    out.push_back({"model.layers.%.mlp.up_proj.bias", "blk.%.ffn_up.bias"});
    out.push_back({"model.layers.%.mlp.down_proj.bias", "blk.%.ffn_down.bias"});
    return out;
  }();
  static const std::vector<KeyRule> window = {{"sliding_window", "attention.sliding_window"}};
  static const std::vector<Family> all = {
      {"llama", "llama", "LlamaForCausalLM", pairs},
      {"mistral", "llama", "MistralForCausalLM", pairs, window},
      {"qwen2", "qwen2", "Qwen2ForCausalLM", llama_like(Change::kNone, Change::kNone, false)},
      {"qwen3", "qwen3", "Qwen3ForCausalLM", llama_like(Change::kNone, Change::kNone, true)},
      {"gemma",
       "gemma",
       "GemmaForCausalLM",
       gemma_like(false, false),
       {},
       "gelu_pytorch_tanh",
       true},
      {"gemma2",
       "gemma2",
       "Gemma2ForCausalLM",
       gemma_like(true, false),
       {{"sliding_window", "attention.sliding_window"},
        {"attn_logit_softcapping", "attn_logit_softcapping", true},
        {"final_logit_softcapping", "final_logit_softcapping", true}},
       "gelu_pytorch_tanh",
       true},
      {"gemma3_text", "gemma3", "Gemma3ForCausalLM", gemma_like(true, true), window,
       "gelu_pytorch_tanh", true},
      {"phi3", "phi3", "Phi3ForCausalLM", phi3_like(), window},
      {"olmo2", "olmo2", "Olmo2ForCausalLM", olmo2_like()},
      {"smollm3", "smollm3", "SmolLM3ForCausalLM", pairs, {}, "silu", true},
      {"granite",
       "granite",
       "GraniteForCausalLM",
       pairs,
       {{"embedding_multiplier", "embedding_scale", true},
        {"residual_multiplier", "residual_scale", true},
        {"logits_scaling", "logit_scale", true},
        {"attention_multiplier", "attention.scale", true}}},
  };
  return all;
}

/// The layer's number if `name` is `pattern` with one for "%", "" if there is
/// no "%" and they are equal.
std::optional<std::string> match(std::string_view pattern, std::string_view name) {
  const std::size_t at = pattern.find('%');
  if (at == std::string_view::npos) {
    return pattern == name ? std::optional<std::string>("") : std::nullopt;
  }
  const std::string_view tail = pattern.substr(at + 1);
  if (!name.starts_with(pattern.substr(0, at)) || !name.ends_with(tail) ||
      name.size() <= at + tail.size()) {
    return std::nullopt;
  }
  const std::string_view digits = name.substr(at, name.size() - at - tail.size());
  if (digits.size() > 4 || (digits.size() > 1 && digits[0] == '0')) return std::nullopt;
  if (digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return std::string(digits);
}

std::string fill(std::string_view pattern, const std::string& layer) {
  std::string out(pattern);
  const std::size_t at = out.find('%');
  if (at != std::string::npos) out.replace(at, 1, layer);
  return out;
}

}  // namespace

const Family* family_of_type(std::string_view model_type) {
  for (const Family& family : families()) {
    if (model_type == family.model_type) return &family;
  }
  return nullptr;
}

const Family* family_of_architecture(std::string_view architecture) {
  for (const Family& family : families()) {
    if (architecture == family.architecture) return &family;
  }
  return nullptr;
}

std::string family_names() {
  std::string out;
  for (const Family& family : families()) {
    out += (out.empty() ? "" : ", ") + std::string(family.model_type);
  }
  return out;
}

std::optional<Named> to_gguf(const Family& family, std::string_view name) {
  for (const TensorRule& rule : family.tensors) {
    if (const auto layer = match(rule.hf, name)) return Named{fill(rule.gguf, *layer), rule.change};
  }
  return std::nullopt;
}

std::optional<Named> to_hf(const Family& family, std::string_view name) {
  for (const TensorRule& rule : family.tensors) {
    if (const auto layer = match(rule.gguf, name)) return Named{fill(rule.hf, *layer), rule.change};
  }
  return std::nullopt;
}

}  // namespace holdfast::hf
