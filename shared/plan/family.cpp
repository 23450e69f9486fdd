// The table of architectures. Sources: the GGUF specification for names, each family's published
// modelling code and paper for the computation.

#include "shared/plan/family.h"

namespace holdfast::plan {
namespace {

/// Returns llama and those that differ from it in biases, norms of queries and keys, or experts.
std::vector<Family> llama_kind() {
  return {{.name = "llama",
           .rope = RopeStyle::kNorm,
           .out_bias = Use::kMay,
           .ffn_bias = Use::kMay,
           .window_period = 1,  // Mistral
           .experts = Use::kMay},
          {.name = "qwen2"},
          {.name = "qwen3", .qk_norm = QkNorm::kHeads},
          {.name = "qwen2moe",
           .experts = Use::kMust,
           .expert_weights_norm = false,
           .shared_expert = Use::kMust,
           .shared_gate = true},
          {.name = "qwen3moe", .qk_norm = QkNorm::kHeads, .experts = Use::kMust},
          {.name = "smollm3",
           .rope = RopeStyle::kNorm,
           .out_bias = Use::kMay,
           .ffn_bias = Use::kMay,
           .no_rope_step = 4},
          {.name = "granite",
           .rope = RopeStyle::kNorm,
           .out_bias = Use::kMay,
           .ffn_bias = Use::kMay,
           .scale_keys = true},
          {.name = "granitemoe",
           .rope = RopeStyle::kNorm,
           .out_bias = Use::kMay,
           .scale_keys = true,
           .experts = Use::kMust,
           .shared_expert = Use::kMay},
          {.name = "internlm2", .rope = RopeStyle::kNorm},
          {.name = "exaone"},
          {.name = "seed_oss", .ffn_norm = "post_attention_norm"},
          {.name = "mistral3", .rope = RopeStyle::kNorm, .temperature = true},
          {.name = "ernie4_5", .rope = RopeStyle::kNorm, .qkv_bias = Use::kNo},
          {.name = "qwen2vl", .rope_sections = true},
          {.name = "qwen3vl", .qk_norm = QkNorm::kHeads, .rope_sections = true},
          {.name = "qwen3vlmoe",
           .qk_norm = QkNorm::kHeads,
           .rope_sections = true,
           .experts = Use::kMust},
          {.name = "phi3", .fused_qkv = true, .fused_gate_up = true, .window_period = 1},
          {.name = "gpt-oss",
           .ffn_norm = "post_attention_norm",
           .activation = Activation::kSwigluOai,
           .qkv_bias = Use::kMust,
           .out_bias = Use::kMust,
           .sinks = true,
           .window_period = 2,
           .window = 128,
           .yarn_whole_pairs = false,
           .experts = Use::kMust,
           .expert_bias = true}};
}

/// Returns families with many small experts, except in the first layers; a bias takes part in the
/// choice of experts and not in their weights.
std::vector<Family> deepseek_kind() {
  return {{.name = "deepseek",
           .rope = RopeStyle::kNorm,
           .experts = Use::kMust,
           .expert_weights_norm = false,
           .shared_expert = Use::kMust,
           .dense_first = true},
          {.name = "deepseek2",
           .rope = RopeStyle::kNorm,
           .experts = Use::kMust,
           .expert_weights_norm = false,
           .shared_expert = Use::kMay,
           .choice_bias = Use::kMay,
           .expert_groups = true,
           .dense_first = true,
           .next_layers = true,
           .latent = true},
          {.name = "dots1",
           .qk_norm = QkNorm::kHeads,
           .experts = Use::kMust,
           .expert_weights_norm = false,
           .shared_expert = Use::kMust,
           .router = Router::kSigmoid,
           .choice_bias = Use::kMay,
           .dense_first = true},
          {.name = "ernie4_5-moe",
           .rope = RopeStyle::kNorm,
           .experts = Use::kMust,
           .shared_expert = Use::kMay,
           .choice_bias = Use::kMay,
           .dense_first = true},
          {.name = "glm4moe",
           .ffn_norm = "post_attention_norm",
           .qk_norm = QkNorm::kHeads,
           .qk_norm_left_out = true,
           .experts = Use::kMust,
           .expert_weights_norm = false,
           .shared_expert = Use::kMust,
           .router = Router::kSigmoid,
           .choice_bias = Use::kMust,
           .dense_first = true,
           .next_layers = true},
          {.name = "bailingmoe2",
           .qk_norm = QkNorm::kHeads,
           .fused_qkv = true,
           .out_bias = Use::kMay,
           .experts = Use::kMust,
           .expert_weights_norm = false,
           .shared_expert = Use::kMust,
           .router = Router::kSigmoid,
           .choice_bias = Use::kMay,
           .expert_groups = true,
           .dense_first = true,
           .next_layers = true},
          {.name = "minimax-m2",
           .qk_norm = QkNorm::kRow,
           .experts = Use::kMust,
           .router = Router::kSigmoid,
           .choice_bias = Use::kMust}};
}

/// Returns families with norms after the blocks, windows, caps.
std::vector<Family> gemma_kind() {
  return {{.name = "gemma", .activation = Activation::kGeluTanh, .embedding_sqrt = true},
          {.name = "gemma2",
           .branch_norm = true,
           .activation = Activation::kGeluTanh,
           .embedding_sqrt = true,
           .window_period = 2,
           .window = 4096,
           .attention_cap = 50,
           .logit_cap = 30,
           .wide_scale_layers = 46},  // 27B
          {.name = "gemma3",
           .branch_norm = true,
           .qk_norm = QkNorm::kHeads,
           .activation = Activation::kGeluTanh,
           .embedding_sqrt = true,
           .window_period = 6,
           .window_rope_base = 10000,
           .window_rope_unscaled = true,
           .wide_scale_layers = 62},  // 27B
          {.name = "gemma4",
           .branch_norm = true,
           .qk_norm = QkNorm::kHeads,
           .activation = Activation::kGeluTanh,
           .qkv_bias = Use::kNo,
           .embedding_sqrt = true,
           .window_period = 6,
           .window = 512,
           .window_rope_base = 10000,
           .window_rope_unscaled = true,
           .attention_scale = 1,
           .experts = Use::kMay,
           .uneven = true,
           .value_norm = true,
           .layer_inputs = true,
           .layer_scale = true,
           .experts_with_dense_ffn = true},
          {.name = "olmo2",
           .pre_norm = false,
           .branch_norm = true,
           .qk_norm = QkNorm::kRow,
           .window_period = 4,  // OLMo 3
           .window_rope_unscaled = true},
          {.name = "exaone4",
           .pre_norm = false,
           .branch_norm = true,
           .qk_norm = QkNorm::kHeads,
           .qkv_bias = Use::kNo,
           .window_period = 4,
           .rope_in_windows = true},
          {.name = "glm4", .rope = RopeStyle::kNorm, .branch_norm = true, .fused_gate_up = true}};
}

/// Returns families with layer norms; with biases, or with parallel blocks.
std::vector<Family> gpt_kind() {
  return {{.name = "stablelm", .norm = NormKind::kLayer},
          {.name = "nemotron",
           .norm = NormKind::kLayer,
           .activation = Activation::kReluSquared,
           .gated = false,
           .out_bias = Use::kMay,
           .ffn_bias = Use::kMay},
          {.name = "command-r",
           .rope = RopeStyle::kNorm,
           .norm = NormKind::kLayer,
           .norm_bias = false,
           .parallel = true,
           .qkv_bias = Use::kNo,
           .logit_factor = true},
          {.name = "cohere2",
           .rope = RopeStyle::kNorm,
           .norm = NormKind::kLayer,
           .norm_bias = false,
           .parallel = true,
           .qkv_bias = Use::kNo,
           .logit_factor = true,
           .window_period = 4,
           .rope_in_windows = true},
          {.name = "starcoder2",
           .norm = NormKind::kLayer,
           .activation = Activation::kGeluTanh,
           .gated = false,
           .out_bias = Use::kMay,
           .ffn_bias = Use::kMay,
           .window_period = 1},
          {.name = "gpt2",
           .rope = RopeStyle::kNone,
           .norm = NormKind::kLayer,
           .activation = Activation::kGeluTanh,
           .gated = false,
           .fused_qkv = true,
           .qkv_bias = Use::kMust,
           .out_bias = Use::kMust,
           .ffn_bias = Use::kMust,
           .positions = true},
          {.name = "bert",
           .rope = RopeStyle::kNone,
           .norm = NormKind::kLayer,
           .pre_norm = false,
           .sum_norm = true,
           .activation = Activation::kGeluErf,
           .gated = false,
           .qkv_bias = Use::kMust,
           .out_bias = Use::kMust,
           .ffn_bias = Use::kMust,
           .positions = true,
           .token_types = true,
           .embedding_norm = true,
           .encoder = true}};
}

/// Returns families in which three layers of four carry a state instead of attending.
std::vector<Family> recurrent_kind() {
  return {{.name = "qwen3next",
           .ffn_norm = "post_attention_norm",
           .qk_norm = QkNorm::kHeads,
           .qkv_bias = Use::kNo,
           .experts = Use::kMust,
           .shared_expert = Use::kMust,
           .shared_gate = true,
           .next_layers = true,
           .delta = DeltaNet::kNeighbours,
           .gated_heads = true},
          {.name = "qwen35",
           .ffn_norm = "post_attention_norm",
           .qk_norm = QkNorm::kHeads,
           .qkv_bias = Use::kNo,
           .rope_sections = true,
           .next_layers = true,
           .delta = DeltaNet::kCyclic,
           .gated_heads = true},
          {.name = "qwen35moe",
           .ffn_norm = "post_attention_norm",
           .qk_norm = QkNorm::kHeads,
           .qkv_bias = Use::kNo,
           .rope_sections = true,
           .experts = Use::kMust,
           .shared_expert = Use::kMust,
           .shared_gate = true,
           .next_layers = true,
           .delta = DeltaNet::kCyclic,
           .gated_heads = true}};
}

std::vector<Family> all_kinds() {
  std::vector<Family> out = llama_kind();
  for (const auto& more : {deepseek_kind(), gemma_kind(), gpt_kind(), recurrent_kind()}) {
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> table = all_kinds();
  return table;
}

const Family* find_family(std::string_view architecture) {
  for (const Family& family : families()) {
    if (family.name == architecture) return &family;
  }
  return nullptr;
}

}  // namespace holdfast::plan
