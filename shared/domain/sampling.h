#pragma once
// How the tokens of a request are sampled. shared/sampling/parameters.h has the names and ranges.

#include <cstdint>
#include <string>

namespace holdfast::domain {

/// Resolved sampling parameters: the receiver applies no defaults.
struct Sampling {
  float temperature = 1.0f;  // 0 = greedy
  std::int32_t top_k = 0;    // 0 = off
  float top_p = 1.0f;        // 1 = off
  float min_p = 0.0f;        // 0 = off
  std::uint64_t seed = 0;    // drawn at acceptance if the client gave none
  bool ignore_eos = false;
  std::int32_t min_tokens = 0;
  std::int32_t logprobs = -1;       // -1 off, else how many alternatives
  float repetition_penalty = 1.0f;  // 1 = off
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::string extra;  // JSON object: further fields (logit_bias, grammar: shared/grammar/request.h)
  std::int32_t prompt_logprobs = -1;  // as logprobs, of the prompt's tokens
};

}  // namespace holdfast::domain
