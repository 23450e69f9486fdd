// The table of families. Sources: src/transformers/models/NAME/{configuration,modeling}_NAME.py of
// transformers for the names in a folder and for the defaults of members that a config may omit,
// the GGUF specification for the other side.

#include "shared/huggingface/families.h"
#include "shared/huggingface/family_tensors.h"

namespace holdfast::huggingface {
namespace {

const KeyRule kWindow = {"sliding_window", "attention.sliding_window"};

/// Adds the prefix "model.", which classes without a text head (…Model) omit.
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
           .huggingface_class = "LlamaForCausalLM",
           .tensors = llama_pairs(),
           .prefixes = bare_model(),
           .bias_key = "attention_bias"},
          {.model_type = "mistral",
           .architecture = "llama",
           .huggingface_class = "MistralForCausalLM",
           .tensors = mistral_like(),
           .keys = {kWindow},
           .prefixes = bare_model(),
           .window_period = 1},
          {.model_type = "mixtral",
           .architecture = "llama",
           .huggingface_class = "MixtralForCausalLM",
           .tensors = mixtral_like(),
           .keys = {kWindow, experts[0], experts[1]},
           .defaults = R"({"num_local_experts": 8, "num_experts_per_tok": 2,
                           "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1e6})",
           .prefixes = bare_model(),
           .window_period = 1},
          {.model_type = "smollm3",
           .architecture = "smollm3",
           .huggingface_class = "SmolLM3ForCausalLM",
           .tensors = llama_pairs(),
           .tied = true,
           .prefixes = bare_model(),
           .bias_key = "attention_bias"},
          {.model_type = "phi3",
           .architecture = "phi3",
           .huggingface_class = "Phi3ForCausalLM",
           .tensors = phi3_like(),
           .keys = {kWindow},
           .prefixes = bare_model(),
           .window_period = 1},
          {.model_type = "olmo2",
           .architecture = "olmo2",
           .huggingface_class = "Olmo2ForCausalLM",
           .tensors = olmo2_like(),
           .prefixes = bare_model()},
          {.model_type = "olmo3",
           .architecture = "olmo2",
           .huggingface_class = "Olmo3ForCausalLM",
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
           .huggingface_class = "Qwen2ForCausalLM",
           .tensors = llama_like(Change::kNone, Change::kNone, false),
           .prefixes = bare_model()},
          {.model_type = "qwen3",
           .architecture = "qwen3",
           .huggingface_class = "Qwen3ForCausalLM",
           .tensors = llama_like(Change::kNone, Change::kNone, true),
           .prefixes = bare_model(),
           .bias_key = "attention_bias"},
          {.model_type = "qwen2_moe",
           .architecture = "qwen2moe",
           .huggingface_class = "Qwen2MoeForCausalLM",
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
           .huggingface_class = "Qwen3MoeForCausalLM",
           .tensors = qwen_moe_like(true, false),
           .keys = experts,
           .defaults = R"({"num_experts": 128, "num_experts_per_tok": 8,
                           "moe_intermediate_size": 768, "norm_topk_prob": false,
                           "num_key_value_heads": 4, "rms_norm_eps": 1e-6})",
           .prefixes = bare_model(),
           .norm_topk = true,
           .bias_key = "attention_bias"}};
}

const char* const kQwen35Defaults =
    R"({"vocab_size": 248320, "hidden_size": 4096, "intermediate_size": 12288,
        "num_hidden_layers": 32, "num_attention_heads": 16, "num_key_value_heads": 4,
        "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "head_dim": 256,
        "partial_rotary_factor": 0.25, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32})";
/// Every layer has experts: the width of a dense one may be anything.
const char* const kQwen35MoeDefaults =
    R"({"vocab_size": 248320, "hidden_size": 2048, "intermediate_size": 512,
        "num_hidden_layers": 40, "num_attention_heads": 16, "num_key_value_heads": 2,
        "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "head_dim": 256,
        "partial_rotary_factor": 0.25, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
        "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512})";

/// Returns a vision model's family: its text model alone.
Family with_text_config(Family text, const char* model_type, const char* huggingface_class) {
  text.model_type = model_type;
  text.huggingface_class = huggingface_class;
  text.text_config = "text_config";
  text.prefixes = {{"model.language_model.", "model."}};
  text.left_out.push_back({"model.visual.*", "the vision encoder"});
  return text;
}

std::vector<Family> qwen35_families() {
  Family dense = {.model_type = "qwen3_5_text",
                  .architecture = "qwen35",
                  .huggingface_class = "Qwen3_5ForCausalLM",
                  .tensors = qwen35_like(),
                  .keys = {{"linear_conv_kernel_dim", "ssm.conv_kernel"},
                           {"linear_key_head_dim", "ssm.state_size"},
                           {"linear_num_key_heads", "ssm.group_count"},
                           {"linear_num_value_heads", "ssm.time_step_rank"}},
                  .defaults = kQwen35Defaults,
                  .prefixes = bare_model(),
                  .left_out = {{"mtp.*", "layers that draft tokens"}},
                  .states = true};
  Family moe = dense;
  moe.model_type = "qwen3_5_moe_text";
  moe.architecture = "qwen35moe";
  moe.huggingface_class = "Qwen3_5MoeForCausalLM";
  moe.tensors = qwen35_moe_like();
  moe.defaults = kQwen35MoeDefaults;
  for (const KeyRule& rule : std::initializer_list<KeyRule>{
           {"num_experts", "expert_count"},
           {"num_experts_per_tok", "expert_used_count"},
           {"moe_intermediate_size", "expert_feed_forward_length"},
           {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"}}) {
    moe.keys.push_back(rule);
  }
  return {dense, with_text_config(dense, "qwen3_5", "Qwen3_5ForConditionalGeneration"), moe,
          with_text_config(moe, "qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration")};
}

std::vector<Family> gpt_oss_families() {
  return {{.model_type = "gpt_oss",
           .architecture = "gpt-oss",
           .huggingface_class = "GptOssForCausalLM",
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

std::vector<Family> glm_families() {
  const std::vector<KeyRule> experts = {{"n_routed_experts", "expert_count"},
                                        {"num_experts_per_tok", "expert_used_count"},
                                        {"n_shared_experts", "expert_shared_count"},
                                        {"moe_intermediate_size", "expert_feed_forward_length"},
                                        {"first_k_dense_replace", "leading_dense_block_count"},
                                        {"routed_scaling_factor", "expert_weights_scale", true}};
  return {{.model_type = "glm4",
           .architecture = "glm4",
           .huggingface_class = "Glm4ForCausalLM",
           .tensors = glm4_like(),
           .defaults = R"({"partial_rotary_factor": 0.5, "head_dim": 128, "num_key_value_heads": 2,
                           "rms_norm_eps": 1.5625e-07, "max_position_embeddings": 131072})",
           .prefixes = bare_model(),
           .bias_key = "attention_bias"},
          {.model_type = "glm4_moe",
           .architecture = "glm4moe",
           .huggingface_class = "Glm4MoeForCausalLM",
           .tensors = deepseek_like("blk.%.post_attention_norm.weight"),
           .keys = experts,
           .defaults = R"({"partial_rotary_factor": 0.5, "num_key_value_heads": 8,
                           "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
                           "moe_intermediate_size": 1408, "num_experts_per_tok": 8,
                           "n_shared_experts": 1, "n_routed_experts": 128,
                           "routed_scaling_factor": 1.0, "first_k_dense_replace": 1,
                           "norm_topk_prob": true})",
           .prefixes = bare_model(),
           .norm_topk = false,
           .bias_key = "attention_bias",
           .gating = 2,
           .next_layers = true},
          {.model_type = "dots1",
           .architecture = "dots1",
           .huggingface_class = "Dots1ForCausalLM",
           .tensors = deepseek_like("blk.%.ffn_norm.weight"),
           .keys = experts,
           .defaults = R"({"num_key_value_heads": 32, "rms_norm_eps": 1e-6,
                           "max_position_embeddings": 2048, "moe_intermediate_size": 1408,
                           "routed_scaling_factor": 1.0, "first_k_dense_replace": 0,
                           "norm_topk_prob": false})",
           .prefixes = bare_model(),
           .norm_topk = false,
           .bias_key = "attention_bias",
           .gating = 2}};
}

std::vector<Family> cohere_families() {
  const KeyRule scale = {"logit_scale", "logit_scale", true};
  return {{.model_type = "cohere",
           .architecture = "command-r",
           .huggingface_class = "CohereForCausalLM",
           .tensors = cohere_like(),
           .keys = {scale},
           .tied = true,
           .defaults = R"({"logit_scale": 0.0625, "layer_norm_eps": 1e-5,
                           "max_position_embeddings": 8192})",
           .prefixes = bare_model(),
           .names = {.epsilon = "layer_norm_eps"},
           .epsilon = "attention.layer_norm_epsilon"},
          {.model_type = "cohere2",
           .architecture = "cohere2",
           .huggingface_class = "Cohere2ForCausalLM",
           .tensors = cohere_like(),
           .keys = {scale, kWindow},
           .tied = true,
           .defaults = R"({"logit_scale": 0.0625, "layer_norm_eps": 1e-5,
                           "max_position_embeddings": 8192, "sliding_window": 4096})",
           .prefixes = bare_model(),
           .names = {.epsilon = "layer_norm_eps"},
           .epsilon = "attention.layer_norm_epsilon",
           .window_period = 4}};
}

/// Returns the families that differ from llama in one or two things.
std::vector<Family> llama_cousins() {
  return {{.model_type = "seed_oss",
           .architecture = "seed_oss",
           .huggingface_class = "SeedOssForCausalLM",
           .tensors = seed_oss_like(),
           .defaults = R"({"num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-6,
                           "max_position_embeddings": 524288})",
           .prefixes = bare_model(),
           .bias_key = "attention_bias"},
          {.model_type = "ernie4_5",
           .architecture = "ernie4_5",
           .huggingface_class = "Ernie4_5ForCausalLM",
           .tensors = ernie_like(),
           .tied = true,
           .defaults = R"({"num_key_value_heads": 2, "head_dim": 128, "rms_norm_eps": 1e-5,
                           "max_position_embeddings": 131072, "rope_theta": 500000.0})",
           .prefixes = bare_model()},
          {.model_type = "exaone4",
           .architecture = "exaone4",
           .huggingface_class = "Exaone4ForCausalLM",
           .tensors = exaone4_like(),
           .keys = {kWindow},
           .defaults = R"({"sliding_window": 4096, "rms_norm_eps": 1e-5,
                           "max_position_embeddings": 2048})",
           .prefixes = bare_model(),
           .window_period = 4},
          {.model_type = "stablelm",
           .architecture = "stablelm",
           .huggingface_class = "StableLmForCausalLM",
           .tensors = stablelm_like(),
           .defaults = R"({"partial_rotary_factor": 0.25, "layer_norm_eps": 1e-5,
                           "max_position_embeddings": 4096})",
           .prefixes = bare_model(),
           .names = {.epsilon = "layer_norm_eps"},
           .epsilon = "attention.layer_norm_epsilon",
           .bias_key = "use_qkv_bias"},
          {.model_type = "nemotron",
           .architecture = "nemotron",
           .huggingface_class = "NemotronForCausalLM",
           .tensors = nemotron_like(),
           .activation = "relu2",
           .defaults = R"({"partial_rotary_factor": 0.5, "norm_eps": 1e-5,
                           "max_position_embeddings": 4096})",
           .prefixes = bare_model(),
           .names = {.epsilon = "norm_eps"},
           .epsilon = "attention.layer_norm_epsilon",
           .bias_key = "attention_bias"}};
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
           .huggingface_class = "GraniteForCausalLM",
           .tensors = llama_pairs(),
           .keys = scales,
           .defaults = defaults,
           .prefixes = bare_model(),
           .bias_key = "attention_bias"},
          {.model_type = "granitemoe",
           .architecture = "granitemoe",
           .huggingface_class = "GraniteMoeForCausalLM",
           .tensors = granite_moe_like(false),
           .keys = experts,
           .defaults = moe_defaults,
           .prefixes = bare_model(),
           .bias_key = "attention_bias"},
          {.model_type = "granitemoeshared",
           .architecture = "granitemoe",
           .huggingface_class = "GraniteMoeSharedForCausalLM",
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
                 .huggingface_class = "Gemma3ForCausalLM",
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
  // The vision model: its text model alone.
  Family both = text;
  both.model_type = "gemma3";
  both.huggingface_class = "Gemma3ForConditionalGeneration";
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
           .huggingface_class = "GemmaForCausalLM",
           .tensors = gemma_like(false, false),
           .activation = "gelu_pytorch_tanh",
           .tied = true,
           .prefixes = bare_model()},
          {.model_type = "gemma2",
           .architecture = "gemma2",
           .huggingface_class = "Gemma2ForCausalLM",
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
           .huggingface_class = "Starcoder2ForCausalLM",
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
           .huggingface_class = "GPT2LMHeadModel",
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
           .huggingface_class = "BertModel",
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
    for (auto* part :
         {llama_families, llama_cousins, qwen_families, qwen35_families, glm_families,
          cohere_families, gpt_oss_families, granite_families, gemma_families, gpt_families}) {
      for (Family& family : part()) out.push_back(std::move(family));
    }
    return out;
  }();
  return all;
}

}  // namespace holdfast::huggingface
