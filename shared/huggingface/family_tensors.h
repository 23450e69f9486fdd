#pragma once
// The tensor rules of each family: its names in a folder, from the modelling code of transformers,
// and in GGUF. Families with mostly the same names share a list and change it.

#include <vector>

#include "shared/huggingface/families.h"

namespace holdfast::huggingface {

/// Returns llama's rules; `q`, `k` are the changes of the rows of queries and keys.
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

}  // namespace holdfast::huggingface
