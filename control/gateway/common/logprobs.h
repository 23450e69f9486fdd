#pragma once
// Log-probabilities in OpenAI's two shapes.

#include <string>
#include <string_view>
#include <vector>

#include "control/gateway/common/choice_text.h"
#include "control/gateway/http/shape.h"
#include "shared/wire/prompt_scores.h"

namespace holdfast::gateway {

/// The prompt that a completion repeats.
struct EchoLog {
  std::string_view text;                       // offsets count from its beginning
  const wire::PromptScores* scores = nullptr;  // null: in another part of the answer
  std::int32_t top = 0;                        // number of alternatives
};

/// Returns the value of "logprobs"; `echo` is for completions. TokenLog::extra is what the worker's
/// sampler makes, with the bytes of the alternatives added by the daemon: {"logprob": x, "top":
/// [[id, y, [byte, …]], …]}. What is missing in it is null or absent in the answer; an alternative
/// without bytes is "token_id:7".
std::string logprobs_json(Api api, const std::vector<TokenLog>& logs, const EchoLog& echo = {});

/// Returns vLLM's "prompt_logprobs": for each token {id: {logprob, rank, decoded_token}} of itself
/// and of the first `top`; null for the first token.
std::string prompt_logprobs_json(const wire::PromptScores& scores, std::int32_t top);

/// Returns the number of characters of `text` before each token of the prompt. A token that is not
/// part of the text (one that was put in front) has no width; where a tokenizer changed the text
/// the number is an estimate.
std::vector<std::int64_t> prompt_offsets(std::string_view text, const wire::PromptScores& scores);

/// Returns the mean over all tokens; the lowest number if there is none.
double mean_logprob(const std::vector<TokenLog>& logs);

}  // namespace holdfast::gateway
