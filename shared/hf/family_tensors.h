#pragma once
// The rules of each family's tensors: its names in a folder, from the modelling code of
// transformers, and in GGUF. Families that call most things alike share a list and change it.

#include <vector>

#include "shared/hf/families.h"

namespace holdfast::hf {

/// `q`, `k`: what becomes of the rows of queries and keys.
std::vector<TensorRule> llama_like(Change q, Change k, bool head_norms);
std::vector<TensorRule> gemma_like(bool branches, bool head_norms);
std::vector<TensorRule> olmo2_like();
std::vector<TensorRule> phi3_like();
std::vector<TensorRule> llama_pairs();
std::vector<TensorRule> mistral_like();
std::vector<TensorRule> mixtral_like();
std::vector<TensorRule> qwen_moe_like(bool head_norms, bool shared);
std::vector<TensorRule> granite_moe_like(bool shared);
std::vector<TensorRule> gpt_oss_like();
std::vector<TensorRule> gpt2_like();
std::vector<TensorRule> starcoder2_like();
std::vector<TensorRule> bert_like();
std::vector<TensorRule> glm4_like();
std::vector<TensorRule> seed_oss_like();
std::vector<TensorRule> deepseek_like(const char* ffn_norm);
std::vector<TensorRule> cohere_like();
std::vector<TensorRule> exaone4_like();
std::vector<TensorRule> stablelm_like();
std::vector<TensorRule> nemotron_like();
std::vector<TensorRule> ernie_like();
std::vector<TensorRule> qwen35_like();
std::vector<TensorRule> qwen35_moe_like();

}  // namespace holdfast::hf
