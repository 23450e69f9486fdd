#include "shared/huggingface/family_tensors.h"

#include <algorithm>

namespace holdfast::huggingface {
namespace {

void rename(std::vector<TensorRule>& rules, std::string_view from, const char* to) {
  for (TensorRule& rule : rules) {
    if (std::string_view(rule.huggingface).ends_with(from)) rule.gguf = to;
  }
}

void add(std::vector<TensorRule>& rules, std::initializer_list<TensorRule> more) {
  rules.insert(rules.end(), more);
}

void drop(std::vector<TensorRule>& rules, std::string_view part) {
  std::erase_if(rules, [&](const TensorRule& rule) {
    return std::string_view(rule.huggingface).find(part) != std::string_view::npos;
  });
}

}  // namespace

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

/// Norms that are stored less 1; with `branches` also those after the blocks (gemma 2 and 3).
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

/// Norms after the blocks alone, and over all heads of a token together.
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
    const std::string_view name = rule.huggingface;
    return name.find("q_proj") != name.npos || name.find("k_proj") != name.npos ||
           name.find("v_proj") != name.npos || name.find("gate_proj") != name.npos ||
           name.find("up_proj") != name.npos;
  });
  out.push_back({"model.layers.%.self_attn.qkv_proj.weight", "blk.%.attn_qkv.weight"});
  out.push_back({"model.layers.%.self_attn.qkv_proj.bias", "blk.%.attn_qkv.bias"});
  out.push_back({"model.layers.%.mlp.gate_up_proj.weight", "blk.%.ffn_up.weight"});
  return out;
}

/// Llama with all the biases that its config allows.
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

/// modeling_mixtral.py: w1 is the gate, w3 is up, w2 is down.
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
/// rows of the gate above those of up.
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

/// modeling_gpt_oss.py: experts in MXFP4, as published, or plain.
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

/// modeling_gpt2.py: Conv1D stores a matrix as [inputs, outputs].
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

/// modeling_bert.py. Files that were converted from the first ones have the names gamma and beta.
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

/// modeling_glm4.py: norms before and after both blocks, one matrix for gate and up.
std::vector<TensorRule> glm4_like() {
  std::vector<TensorRule> out = llama_like(Change::kNone, Change::kNone, false);
  drop(out, ".mlp.gate_proj");
  drop(out, ".mlp.up_proj");
  add(out, {{"model.layers.%.post_self_attn_layernorm.weight", "blk.%.post_attention_norm.weight"},
            {"model.layers.%.post_mlp_layernorm.weight", "blk.%.post_ffw_norm.weight"},
            {"model.layers.%.mlp.gate_up_proj.weight", "blk.%.ffn_up.weight"}});
  return out;
}

/// modeling_seed_oss.py.
std::vector<TensorRule> seed_oss_like() {
  std::vector<TensorRule> out = llama_like(Change::kNone, Change::kNone, false);
  rename(out, "post_attention_layernorm.weight", "blk.%.post_attention_norm.weight");
  return out;
}

/// modeling_glm4_moe.py, modeling_dots1.py: deepseek's third family except for its attention. The
/// first layers are llama's.
std::vector<TensorRule> deepseek_like(const char* ffn_norm) {
  std::vector<TensorRule> out = llama_like(Change::kNone, Change::kNone, true);
  rename(out, "post_attention_layernorm.weight", ffn_norm);
  add(out, {{"model.layers.%.mlp.gate.weight", "blk.%.ffn_gate_inp.weight", Change::kFloat32},
            {"model.layers.%.mlp.gate.e_score_correction_bias", "blk.%.exp_probs_b.bias"},
            {"model.layers.%.mlp.experts.#.gate_proj.weight", "blk.%.ffn_gate_exps.weight"},
            {"model.layers.%.mlp.experts.#.up_proj.weight", "blk.%.ffn_up_exps.weight"},
            {"model.layers.%.mlp.experts.#.down_proj.weight", "blk.%.ffn_down_exps.weight"},
            {"model.layers.%.mlp.shared_experts.gate_proj.weight", "blk.%.ffn_gate_shexp.weight"},
            {"model.layers.%.mlp.shared_experts.up_proj.weight", "blk.%.ffn_up_shexp.weight"},
            {"model.layers.%.mlp.shared_experts.down_proj.weight", "blk.%.ffn_down_shexp.weight"}});
  return out;
}

/// modeling_cohere.py, modeling_cohere2.py: one norm for both blocks; rotated pairs are adjacent in
/// a folder and in GGUF.
std::vector<TensorRule> cohere_like() {
  std::vector<TensorRule> out = llama_like(Change::kNone, Change::kNone, false);
  drop(out, ".bias");
  drop(out, "post_attention_layernorm");
  return out;
}

/// modeling_exaone4.py: norms after the blocks alone.
std::vector<TensorRule> exaone4_like() {
  std::vector<TensorRule> out = olmo2_like();
  drop(out, ".bias");
  return out;
}

/// modeling_stablelm.py.
std::vector<TensorRule> stablelm_like() {
  std::vector<TensorRule> out = llama_like(Change::kNone, Change::kNone, false);
  add(out, {{"model.norm.bias", "output_norm.bias"},
            {"model.layers.%.input_layernorm.bias", "blk.%.attn_norm.bias"},
            {"model.layers.%.post_attention_layernorm.bias", "blk.%.ffn_norm.bias"}});
  return out;
}

/// modeling_nemotron.py: layer norms stored less 1, no gate.
std::vector<TensorRule> nemotron_like() {
  std::vector<TensorRule> out = stablelm_like();
  drop(out, ".mlp.gate_proj");
  add(out, {{"model.layers.%.self_attn.o_proj.bias", "blk.%.attn_output.bias"},
            {"model.layers.%.mlp.up_proj.bias", "blk.%.ffn_up.bias"},
            {"model.layers.%.mlp.down_proj.bias", "blk.%.ffn_down.bias"}});
  for (TensorRule& rule : out) {
    if (std::string_view(rule.gguf).ends_with("norm.weight")) rule.change = Change::kPlusOne;
  }
  return out;
}

/// modeling_ernie4_5.py: rotated pairs are adjacent in a folder and in GGUF.
std::vector<TensorRule> ernie_like() {
  std::vector<TensorRule> out = llama_like(Change::kNone, Change::kNone, false);
  drop(out, ".bias");
  return out;
}

/// modeling_qwen3_5.py. Norms are stored less 1, except the one after a recurrent layer's heads.
std::vector<TensorRule> qwen35_like() {
  std::vector<TensorRule> out = llama_like(Change::kNone, Change::kNone, true);
  rename(out, "post_attention_layernorm.weight", "blk.%.post_attention_norm.weight");
  for (TensorRule& rule : out) {
    if (std::string_view(rule.gguf).ends_with("norm.weight")) rule.change = Change::kPlusOne;
  }
  const std::vector<TensorRule> states = {
      {"model.layers.%.linear_attn.in_proj_qkv.weight", "blk.%.attn_qkv.weight",
       Change::kStateRows},
      {"model.layers.%.linear_attn.in_proj_z.weight", "blk.%.attn_gate.weight", Change::kStateRows},
      {"model.layers.%.linear_attn.in_proj_b.weight", "blk.%.ssm_beta.weight", Change::kStateRows},
      {"model.layers.%.linear_attn.in_proj_a.weight", "blk.%.ssm_alpha.weight", Change::kStateRows},
      {"model.layers.%.linear_attn.conv1d.weight", "blk.%.ssm_conv1d.weight", Change::kStateConv},
      {"model.layers.%.linear_attn.dt_bias", "blk.%.ssm_dt.bias", Change::kStateRows},
      {"model.layers.%.linear_attn.A_log", "blk.%.ssm_a", Change::kStateRate},
      {"model.layers.%.linear_attn.norm.weight", "blk.%.ssm_norm.weight"},
      {"model.layers.%.linear_attn.out_proj.weight", "blk.%.ssm_out.weight",
       Change::kStateColumns}};
  out.insert(out.end(), states.begin(), states.end());
  return out;
}

/// modeling_qwen3_5_moe.py: all experts of a layer in one tensor, or one tensor each.
std::vector<TensorRule> qwen35_moe_like() {
  std::vector<TensorRule> out = qwen35_like();
  drop(out, ".mlp.");
  for (const TensorRule& rule : qwen_moe_like(true, true)) {
    if (std::string_view(rule.huggingface).find(".mlp.") != std::string_view::npos)
      out.push_back(rule);
  }
  const char* both = "model.layers.%.mlp.experts.gate_up_proj";
  add(out, {{both, "blk.%.ffn_gate_exps.weight", Change::kNone, 0, 2},
            {both, "blk.%.ffn_up_exps.weight", Change::kNone, 1, 2},
            {"model.layers.%.mlp.experts.down_proj", "blk.%.ffn_down_exps.weight"}});
  return out;
}

}  // namespace holdfast::huggingface
