#include "shared/hf/families.h"

#include <charconv>

namespace holdfast::hf {
namespace {

std::vector<TensorRule> llama_like(Change q, Change k, bool biases, bool head_norms) {
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
  if (biases) {
    out.push_back({"model.layers.%.self_attn.q_proj.bias", "blk.%.attn_q.bias", q});
    out.push_back({"model.layers.%.self_attn.k_proj.bias", "blk.%.attn_k.bias", k});
    out.push_back({"model.layers.%.self_attn.v_proj.bias", "blk.%.attn_v.bias"});
  }
  if (head_norms) {
    out.push_back({"model.layers.%.self_attn.q_norm.weight", "blk.%.attn_q_norm.weight"});
    out.push_back({"model.layers.%.self_attn.k_norm.weight", "blk.%.attn_k_norm.weight"});
  }
  return out;
}

const std::vector<Family>& families() {
  static const std::vector<TensorRule> pairs =
      llama_like(Change::kPermuteQ, Change::kPermuteK, true, false);
  static const std::vector<Family> all = {
      {"llama", "llama", "LlamaForCausalLM", pairs},
      {"mistral", "llama", "MistralForCausalLM", pairs},
      {"qwen2", "qwen2", "Qwen2ForCausalLM", llama_like(Change::kNone, Change::kNone, true, false)},
      {"qwen3", "qwen3", "Qwen3ForCausalLM", llama_like(Change::kNone, Change::kNone, false, true)},
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
