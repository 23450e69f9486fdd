// The table of families as folders have them. Sources: src/transformers/models/NAME/
// {configuration,modeling}_NAME.py of transformers for the names in a folder and for the defaults
// of what a config may leave out, the GGUF specification for the other side.

#include "shared/hf/families.h"

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

void add(std::vector<TensorRule>& rules, std::initializer_list<TensorRule> more) {
  rules.insert(rules.end(), more);
}

void drop(std::vector<TensorRule>& rules, std::string_view part) {
  std::erase_if(rules, [&](const TensorRule& rule) {
    return std::string_view(rule.hf).find(part) != std::string_view::npos;
  });
}

/// Llama with all the biases that its config can ask for.
std::vector<TensorRule> llama_pairs() {
  std::vector<TensorRule> out = llama_like(Change::kPermuteQ, Change::kPermuteK, false);
  add(out, {{"model.layers.%.self_attn.o_proj.bias", "blk.%.attn_output.bias"},
            {"model.layers.%.mlp.gate_proj.bias", "blk.%.ffn_gate.bias"},
            {"model.layers.%.mlp.up_proj.bias", "blk.%.ffn_up.bias"},
            {"model.layers.%.mlp.down_proj.bias", "blk.%.ffn_down.bias"}});
  return out;
}

std::vector<TensorRule> mistral_like() {
  std::vector<TensorRule> out = llama_like(Change::kPermuteQ, Change::kPermuteK, false);
  drop(out, ".bias");
  return out;
}

/// modeling_mixtral.py: w1 is the gate, w3 goes up, w2 down.
std::vector<TensorRule> mixtral_like() {
  std::vector<TensorRule> out = mistral_like();
  drop(out, ".mlp.");
  add(out, {{"model.layers.%.block_sparse_moe.gate.weight", "blk.%.ffn_gate_inp.weight",
             Change::kFloat32},
            {"model.layers.%.block_sparse_moe.experts.#.w1.weight", "blk.%.ffn_gate_exps.weight"},
            {"model.layers.%.block_sparse_moe.experts.#.w3.weight", "blk.%.ffn_up_exps.weight"},
            {"model.layers.%.block_sparse_moe.experts.#.w2.weight", "blk.%.ffn_down_exps.weight"}});
  return out;
}

/// modeling_qwen2_moe.py, modeling_qwen3_moe.py.
std::vector<TensorRule> qwen_moe_like(bool head_norms, bool shared) {
  std::vector<TensorRule> out = llama_like(Change::kNone, Change::kNone, head_norms);
  drop(out, ".mlp.");
  add(out, {{"model.layers.%.mlp.gate.weight", "blk.%.ffn_gate_inp.weight", Change::kFloat32},
            {"model.layers.%.mlp.experts.#.gate_proj.weight", "blk.%.ffn_gate_exps.weight"},
            {"model.layers.%.mlp.experts.#.up_proj.weight", "blk.%.ffn_up_exps.weight"},
            {"model.layers.%.mlp.experts.#.down_proj.weight", "blk.%.ffn_down_exps.weight"}});
  if (!shared) return out;
  add(out, {{"model.layers.%.mlp.shared_expert_gate.weight", "blk.%.ffn_gate_inp_shexp.weight",
             Change::kVector},
            {"model.layers.%.mlp.shared_expert.gate_proj.weight", "blk.%.ffn_gate_shexp.weight"},
            {"model.layers.%.mlp.shared_expert.up_proj.weight", "blk.%.ffn_up_shexp.weight"},
            {"model.layers.%.mlp.shared_expert.down_proj.weight", "blk.%.ffn_down_shexp.weight"}});
  return out;
}

/// modeling_granitemoe.py, modeling_granitemoeshared.py: all experts of a layer in one tensor, the
/// rows of the gate above those that go up.
std::vector<TensorRule> granite_moe_like(bool shared) {
  std::vector<TensorRule> out = llama_pairs();
  drop(out, ".mlp.");
  add(out,
      {{"model.layers.%.block_sparse_moe.router.layer.weight", "blk.%.ffn_gate_inp.weight",
        Change::kFloat32},
       {"model.layers.%.block_sparse_moe.input_linear.weight", "blk.%.ffn_gate_exps.weight",
        Change::kNone, 0, 2},
       {"model.layers.%.block_sparse_moe.input_linear.weight", "blk.%.ffn_up_exps.weight",
        Change::kNone, 1, 2},
       {"model.layers.%.block_sparse_moe.output_linear.weight", "blk.%.ffn_down_exps.weight"}});
  if (!shared) return out;
  add(out, {{"model.layers.%.shared_mlp.input_linear.weight", "blk.%.ffn_gate_shexp.weight",
             Change::kNone, 0, 2},
            {"model.layers.%.shared_mlp.input_linear.weight", "blk.%.ffn_up_shexp.weight",
             Change::kNone, 1, 2},
            {"model.layers.%.shared_mlp.output_linear.weight", "blk.%.ffn_down_shexp.weight"}});
  return out;
}

/// modeling_gpt_oss.py: experts in MXFP4, as they were published, or plain.
std::vector<TensorRule> gpt_oss_like() {
  std::vector<TensorRule> out = llama_like(Change::kNone, Change::kNone, false);
  drop(out, ".mlp.");
  rename(out, "post_attention_layernorm.weight", "blk.%.post_attention_norm.weight");
  constexpr const char* kGate = "blk.%.ffn_gate_exps.weight";
  constexpr const char* kUp = "blk.%.ffn_up_exps.weight";
  constexpr const char* kDown = "blk.%.ffn_down_exps.weight";
  add(out,
      {{"model.layers.%.self_attn.o_proj.bias", "blk.%.attn_output.bias"},
       {"model.layers.%.self_attn.sinks", "blk.%.attn_sinks.weight"},
       {"model.layers.%.mlp.router.weight", "blk.%.ffn_gate_inp.weight", Change::kFloat32},
       {"model.layers.%.mlp.router.bias", "blk.%.ffn_gate_inp.bias"},
       {"model.layers.%.mlp.experts.gate_up_proj_blocks", kGate, Change::kMxfp4, 0, 2},
       {"model.layers.%.mlp.experts.gate_up_proj_blocks", kUp, Change::kMxfp4, 1, 2},
       {"model.layers.%.mlp.experts.down_proj_blocks", kDown, Change::kMxfp4},
       {"model.layers.%.mlp.experts.gate_up_proj_scales", kGate, Change::kMxfp4Scales, 0, 2},
       {"model.layers.%.mlp.experts.gate_up_proj_scales", kUp, Change::kMxfp4Scales, 1, 2},
       {"model.layers.%.mlp.experts.down_proj_scales", kDown, Change::kMxfp4Scales},
       {"model.layers.%.mlp.experts.gate_up_proj", kGate, Change::kTransposeEach, 0, 2},
       {"model.layers.%.mlp.experts.gate_up_proj", kUp, Change::kTransposeEach, 1, 2},
       {"model.layers.%.mlp.experts.down_proj", kDown, Change::kTransposeEach},
       {"model.layers.%.mlp.experts.gate_up_proj_bias", "blk.%.ffn_gate_exps.bias", Change::kBiases,
        0, 2},
       {"model.layers.%.mlp.experts.gate_up_proj_bias", "blk.%.ffn_up_exps.bias", Change::kBiases,
        1, 2},
       {"model.layers.%.mlp.experts.down_proj_bias", "blk.%.ffn_down_exps.bias", Change::kBiases}});
  return out;
}

/// modeling_gpt2.py: Conv1D keeps a matrix as [inputs, outputs].
std::vector<TensorRule> gpt2_like() {
  constexpr Change kTurned = Change::kTranspose;
  return {{"transformer.wte.weight", "token_embd.weight"},
          {"transformer.wpe.weight", "position_embd.weight", Change::kFloat32},
          {"transformer.ln_f.weight", "output_norm.weight"},
          {"transformer.ln_f.bias", "output_norm.bias"},
          {"lm_head.weight", "output.weight"},
          {"transformer.h.%.ln_1.weight", "blk.%.attn_norm.weight"},
          {"transformer.h.%.ln_1.bias", "blk.%.attn_norm.bias"},
          {"transformer.h.%.attn.c_attn.weight", "blk.%.attn_qkv.weight", kTurned},
          {"transformer.h.%.attn.c_attn.bias", "blk.%.attn_qkv.bias"},
          {"transformer.h.%.attn.c_proj.weight", "blk.%.attn_output.weight", kTurned},
          {"transformer.h.%.attn.c_proj.bias", "blk.%.attn_output.bias"},
          {"transformer.h.%.ln_2.weight", "blk.%.ffn_norm.weight"},
          {"transformer.h.%.ln_2.bias", "blk.%.ffn_norm.bias"},
          {"transformer.h.%.mlp.c_fc.weight", "blk.%.ffn_up.weight", kTurned},
          {"transformer.h.%.mlp.c_fc.bias", "blk.%.ffn_up.bias"},
          {"transformer.h.%.mlp.c_proj.weight", "blk.%.ffn_down.weight", kTurned},
          {"transformer.h.%.mlp.c_proj.bias", "blk.%.ffn_down.bias"}};
}

/// modeling_starcoder2.py.
std::vector<TensorRule> starcoder2_like() {
  std::vector<TensorRule> out = llama_like(Change::kNone, Change::kNone, false);
  drop(out, ".mlp.");
  add(out, {{"model.norm.bias", "output_norm.bias"},
            {"model.layers.%.input_layernorm.bias", "blk.%.attn_norm.bias"},
            {"model.layers.%.self_attn.o_proj.bias", "blk.%.attn_output.bias"},
            {"model.layers.%.post_attention_layernorm.bias", "blk.%.ffn_norm.bias"},
            {"model.layers.%.mlp.c_fc.weight", "blk.%.ffn_up.weight"},
            {"model.layers.%.mlp.c_fc.bias", "blk.%.ffn_up.bias"},
            {"model.layers.%.mlp.c_proj.weight", "blk.%.ffn_down.weight"},
            {"model.layers.%.mlp.c_proj.bias", "blk.%.ffn_down.bias"}});
  return out;
}

/// modeling_bert.py. Files that were converted from the first ones say gamma and beta.
std::vector<TensorRule> bert_like() {
  return {
      {"embeddings.word_embeddings.weight", "token_embd.weight"},
      {"embeddings.position_embeddings.weight", "position_embd.weight", Change::kFloat32},
      {"embeddings.token_type_embeddings.weight", "token_types.weight", Change::kFloat32},
      {"embeddings.LayerNorm.weight", "token_embd_norm.weight"},
      {"embeddings.LayerNorm.bias", "token_embd_norm.bias"},
      {"encoder.layer.%.attention.self.query.weight", "blk.%.attn_q.weight"},
      {"encoder.layer.%.attention.self.query.bias", "blk.%.attn_q.bias"},
      {"encoder.layer.%.attention.self.key.weight", "blk.%.attn_k.weight"},
      {"encoder.layer.%.attention.self.key.bias", "blk.%.attn_k.bias"},
      {"encoder.layer.%.attention.self.value.weight", "blk.%.attn_v.weight"},
      {"encoder.layer.%.attention.self.value.bias", "blk.%.attn_v.bias"},
      {"encoder.layer.%.attention.output.dense.weight", "blk.%.attn_output.weight"},
      {"encoder.layer.%.attention.output.dense.bias", "blk.%.attn_output.bias"},
      {"encoder.layer.%.attention.output.LayerNorm.weight", "blk.%.attn_output_norm.weight"},
      {"encoder.layer.%.attention.output.LayerNorm.bias", "blk.%.attn_output_norm.bias"},
      {"encoder.layer.%.intermediate.dense.weight", "blk.%.ffn_up.weight"},
      {"encoder.layer.%.intermediate.dense.bias", "blk.%.ffn_up.bias"},
      {"encoder.layer.%.output.dense.weight", "blk.%.ffn_down.weight"},
      {"encoder.layer.%.output.dense.bias", "blk.%.ffn_down.bias"},
      {"encoder.layer.%.output.LayerNorm.weight", "blk.%.layer_output_norm.weight"},
      {"encoder.layer.%.output.LayerNorm.bias", "blk.%.layer_output_norm.bias"},
      {"embeddings.LayerNorm.gamma", "token_embd_norm.weight"},
      {"embeddings.LayerNorm.beta", "token_embd_norm.bias"},
      {"encoder.layer.%.attention.output.LayerNorm.gamma", "blk.%.attn_output_norm.weight"},
      {"encoder.layer.%.attention.output.LayerNorm.beta", "blk.%.attn_output_norm.bias"},
      {"encoder.layer.%.output.LayerNorm.gamma", "blk.%.layer_output_norm.weight"},
      {"encoder.layer.%.output.LayerNorm.beta", "blk.%.layer_output_norm.bias"},
  };
}

const KeyRule kWindow = {"sliding_window", "attention.sliding_window"};

/// Classes without a head for text (…Model) are saved without "model.".
std::vector<PrefixRule> bare_model() {
  return {{"layers.", "model.layers."},
          {"embed_tokens.", "model.embed_tokens."},
          {"norm.", "model.norm."}};
}

std::vector<Family> llama_families() {
  const std::vector<KeyRule> experts = {{"num_local_experts", "expert_count"},
                                        {"num_experts_per_tok", "expert_used_count"}};
  return {{.model_type = "llama",
           .architecture = "llama",
           .hf_class = "LlamaForCausalLM",
           .tensors = llama_pairs(),
           .prefixes = bare_model(),
           .bias_key = "attention_bias"},
          {.model_type = "mistral",
           .architecture = "llama",
           .hf_class = "MistralForCausalLM",
           .tensors = mistral_like(),
           .keys = {kWindow},
           .prefixes = bare_model(),
           .window_period = 1},
          {.model_type = "mixtral",
           .architecture = "llama",
           .hf_class = "MixtralForCausalLM",
           .tensors = mixtral_like(),
           .keys = {kWindow, experts[0], experts[1]},
           .defaults = R"({"num_local_experts": 8, "num_experts_per_tok": 2,
                           "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1e6})",
           .prefixes = bare_model(),
           .window_period = 1},
          {.model_type = "smollm3",
           .architecture = "smollm3",
           .hf_class = "SmolLM3ForCausalLM",
           .tensors = llama_pairs(),
           .tied = true,
           .prefixes = bare_model(),
           .bias_key = "attention_bias"},
          {.model_type = "phi3",
           .architecture = "phi3",
           .hf_class = "Phi3ForCausalLM",
           .tensors = phi3_like(),
           .keys = {kWindow},
           .prefixes = bare_model(),
           .window_period = 1},
          {.model_type = "olmo2",
           .architecture = "olmo2",
           .hf_class = "Olmo2ForCausalLM",
           .tensors = olmo2_like(),
           .prefixes = bare_model()},
          {.model_type = "olmo3",
           .architecture = "olmo2",
           .hf_class = "Olmo3ForCausalLM",
           .tensors = olmo2_like(),
           .keys = {kWindow},
           .defaults = R"({"sliding_window": 4096})",
           .prefixes = bare_model(),
           .window_period = 4}};
}

std::vector<Family> qwen_families() {
  const std::vector<KeyRule> experts = {{"num_experts", "expert_count"},
                                        {"num_experts_per_tok", "expert_used_count"},
                                        {"moe_intermediate_size", "expert_feed_forward_length"}};
  std::vector<KeyRule> shared = experts;
  shared.push_back({"shared_expert_intermediate_size", "expert_shared_feed_forward_length"});
  return {{.model_type = "qwen2",
           .architecture = "qwen2",
           .hf_class = "Qwen2ForCausalLM",
           .tensors = llama_like(Change::kNone, Change::kNone, false),
           .prefixes = bare_model()},
          {.model_type = "qwen3",
           .architecture = "qwen3",
           .hf_class = "Qwen3ForCausalLM",
           .tensors = llama_like(Change::kNone, Change::kNone, true),
           .prefixes = bare_model(),
           .bias_key = "attention_bias"},
          {.model_type = "qwen2_moe",
           .architecture = "qwen2moe",
           .hf_class = "Qwen2MoeForCausalLM",
           .tensors = qwen_moe_like(false, true),
           .keys = shared,
           .defaults = R"({"num_experts": 60, "num_experts_per_tok": 4,
                           "moe_intermediate_size": 1408, "norm_topk_prob": false,
                           "shared_expert_intermediate_size": 5632, "num_key_value_heads": 16,
                           "rms_norm_eps": 1e-6})",
           .prefixes = bare_model(),
           .norm_topk = false,
           .bias_key = "qkv_bias"},
          {.model_type = "qwen3_moe",
           .architecture = "qwen3moe",
           .hf_class = "Qwen3MoeForCausalLM",
           .tensors = qwen_moe_like(true, false),
           .keys = experts,
           .defaults = R"({"num_experts": 128, "num_experts_per_tok": 8,
                           "moe_intermediate_size": 768, "norm_topk_prob": false,
                           "num_key_value_heads": 4, "rms_norm_eps": 1e-6})",
           .prefixes = bare_model(),
           .norm_topk = true,
           .bias_key = "attention_bias"}};
}

std::vector<Family> gpt_oss_families() {
  return {{.model_type = "gpt_oss",
           .architecture = "gpt-oss",
           .hf_class = "GptOssForCausalLM",
           .tensors = gpt_oss_like(),
           .keys = {kWindow,
                    {"num_local_experts", "expert_count"},
                    {"num_experts_per_tok", "expert_used_count"},
                    {"intermediate_size", "expert_feed_forward_length"}},
           .defaults = R"({"num_local_experts": 128, "num_experts_per_tok": 4, "head_dim": 64,
                          "num_attention_heads": 64, "num_key_value_heads": 8,
                          "sliding_window": 128, "rms_norm_eps": 1e-5, "rope_theta": 150000.0,
                          "max_position_embeddings": 131072,
                          "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0,
                                           "beta_slow": 1.0, "truncate": false,
                                           "original_max_position_embeddings": 4096}})",
           .prefixes = bare_model(),
           .window_period = 2,
           .quantised = "mxfp4",
           .yarn_truncate = false}};
}

std::vector<Family> granite_families() {
  const std::vector<KeyRule> scales = {{"embedding_multiplier", "embedding_scale", true},
                                       {"residual_multiplier", "residual_scale", true},
                                       {"logits_scaling", "logit_scale", true},
                                       {"attention_multiplier", "attention.scale", true}};
  const char* const defaults = R"({"embedding_multiplier": 1.0, "residual_multiplier": 1.0,
      "logits_scaling": 1.0, "attention_multiplier": 1.0, "rms_norm_eps": 1e-6})";
  const char* const moe_defaults = R"({"embedding_multiplier": 1.0, "residual_multiplier": 1.0,
      "logits_scaling": 1.0, "attention_multiplier": 1.0, "rms_norm_eps": 1e-6,
      "num_local_experts": 8, "num_experts_per_tok": 2})";
  std::vector<KeyRule> experts = scales;
  experts.push_back({"num_local_experts", "expert_count"});
  experts.push_back({"num_experts_per_tok", "expert_used_count"});
  std::vector<KeyRule> shared = experts;
  shared.push_back({"shared_intermediate_size", "expert_shared_feed_forward_length"});
  return {{.model_type = "granite",
           .architecture = "granite",
           .hf_class = "GraniteForCausalLM",
           .tensors = llama_pairs(),
           .keys = scales,
           .defaults = defaults,
           .prefixes = bare_model(),
           .bias_key = "attention_bias"},
          {.model_type = "granitemoe",
           .architecture = "granitemoe",
           .hf_class = "GraniteMoeForCausalLM",
           .tensors = granite_moe_like(false),
           .keys = experts,
           .defaults = moe_defaults,
           .prefixes = bare_model(),
           .bias_key = "attention_bias"},
          {.model_type = "granitemoeshared",
           .architecture = "granitemoe",
           .hf_class = "GraniteMoeSharedForCausalLM",
           .tensors = granite_moe_like(true),
           .keys = shared,
           .defaults = moe_defaults,
           .prefixes = bare_model(),
           .bias_key = "attention_bias"}};
}

std::vector<Family> gemma_families() {
  const std::vector<KeyRule> caps = {{"attn_logit_softcapping", "attn_logit_softcapping", true},
                                     {"final_logit_softcapping", "final_logit_softcapping", true}};
  Family text = {.model_type = "gemma3_text",
                 .architecture = "gemma3",
                 .hf_class = "Gemma3ForCausalLM",
                 .tensors = gemma_like(true, true),
                 .keys = {kWindow, caps[0], caps[1]},
                 .activation = "gelu_pytorch_tanh",
                 .tied = true,
                 .defaults = R"({"vocab_size": 262208, "num_attention_heads": 8,
                                 "num_key_value_heads": 4, "head_dim": 256,
                                 "max_position_embeddings": 131072, "rms_norm_eps": 1e-6,
                                 "rope_theta": 1e6, "query_pre_attn_scalar": 256,
                                 "sliding_window": 4096})",
                 .prefixes = bare_model(),
                 .window_period = 6};
  // The one that sees, too: its text alone.
  Family both = text;
  both.model_type = "gemma3";
  both.hf_class = "Gemma3ForConditionalGeneration";
  both.text_config = "text_config";
  both.prefixes = {{"language_model.model.", "model."},
                   {"language_model.lm_head.", "lm_head."},
                   {"model.language_model.", "model."}};
  for (const char* name : {"vision_tower.*", "model.vision_tower.*"}) {
    both.left_out.push_back({name, "the vision encoder"});
  }
  for (const char* name : {"multi_modal_projector.*", "model.multi_modal_projector.*"}) {
    both.left_out.push_back({name, "the projection of images"});
  }
  return {{.model_type = "gemma",
           .architecture = "gemma",
           .hf_class = "GemmaForCausalLM",
           .tensors = gemma_like(false, false),
           .activation = "gelu_pytorch_tanh",
           .tied = true,
           .prefixes = bare_model()},
          {.model_type = "gemma2",
           .architecture = "gemma2",
           .hf_class = "Gemma2ForCausalLM",
           .tensors = gemma_like(true, false),
           .keys = {kWindow, caps[0], caps[1]},
           .activation = "gelu_pytorch_tanh",
           .tied = true,
           .prefixes = bare_model(),
           .window_period = 2},
          text,
          both};
}

std::vector<Family> gpt_families() {
  return {{.model_type = "starcoder2",
           .architecture = "starcoder2",
           .hf_class = "Starcoder2ForCausalLM",
           .tensors = starcoder2_like(),
           .keys = {kWindow},
           .activation = "gelu_pytorch_tanh",
           .tied = true,
           .defaults = R"({"norm_epsilon": 1e-5, "num_key_value_heads": 2})",
           .prefixes = bare_model(),
           .names = {.epsilon = "norm_epsilon"},
           .epsilon = "attention.layer_norm_epsilon",
           .bias_key = "use_bias",
           .window_period = 1},
          {.model_type = "gpt2",
           .architecture = "gpt2",
           .hf_class = "GPT2LMHeadModel",
           .tensors = gpt2_like(),
           .activation = "gelu_pytorch_tanh",
           .tied = true,
           .defaults = R"({"n_positions": 1024, "layer_norm_epsilon": 1e-5})",
           .prefixes = {{"h.", "transformer.h."},
                        {"wte.", "transformer.wte."},
                        {"wpe.", "transformer.wpe."},
                        {"ln_f.", "transformer.ln_f."}},
           .left_out = {{"transformer.h.%.attn.bias", nullptr},  // the causal mask
                        {"transformer.h.%.attn.masked_bias", nullptr}},
           .names = {.layers = "n_layer",
                     .context = "n_positions",
                     .width = "n_embd",
                     .ff = "n_inner",
                     .heads = "n_head",
                     .kv_heads = nullptr,
                     .epsilon = "layer_norm_epsilon",
                     .activation = "activation_function"},
           .epsilon = "attention.layer_norm_epsilon",
           .rope = false},
          {.model_type = "bert",
           .architecture = "bert",
           .hf_class = "BertModel",
           .tensors = bert_like(),
           .keys = {{"type_vocab_size", "tokenizer.ggml.token_type_count"}},
           .activation = "gelu",
           .tied = true,
           .defaults = R"({"layer_norm_eps": 1e-12, "type_vocab_size": 2})",
           .prefixes = {{"bert.", ""}},
           .left_out = {{"embeddings.position_ids", nullptr},
                        {"pooler.*", "the pooler of the first token"},
                        {"cls.*", "the heads of pre-training"}},
           .names = {.kv_heads = nullptr, .epsilon = "layer_norm_eps"},
           .epsilon = "attention.layer_norm_epsilon",
           .rope = false,
           .encoder = true}};
}

}  // namespace

const std::vector<Family>& all_families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> out;
    for (auto* part : {llama_families, qwen_families, gpt_oss_families, granite_families,
                       gemma_families, gpt_families}) {
      for (Family& family : part()) out.push_back(std::move(family));
    }
    return out;
  }();
  return all;
}

}  // namespace holdfast::hf
