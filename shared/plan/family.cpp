// The table of architectures. Sources: the GGUF specification for names, each family's published
// modelling code and paper for what is computed.

#include "shared/plan/family.h"

namespace holdfast::plan {
namespace {

/// Llama and those that differ from it in biases, norms of queries and keys, or experts.
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

/// Norms behind the blocks, windows, caps.
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
          {.name = "olmo2",
           .pre_norm = false,
           .branch_norm = true,
           .qk_norm = QkNorm::kRow,
           .window_period = 4,  // OLMo 3
           .window_rope_unscaled = true}};
}

/// Layer norms, biases, no gate.
std::vector<Family> gpt_kind() {
  return {{.name = "starcoder2",
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

std::vector<Family> all_kinds() {
  std::vector<Family> out = llama_kind();
  for (const auto& more : {gemma_kind(), gpt_kind()}) {
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
