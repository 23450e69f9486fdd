#pragma once
// Log-probabilities in OpenAI's two shapes.

#include <string>
#include <vector>

#include "control/gateway/choice_text.h"
#include "control/gateway/shape.h"

namespace holdfast::gateway {

/// The value of "logprobs". TokenLog::extra is what the worker's sampler makes, with the bytes of
/// the alternatives added by the daemon: {"logprob": x, "top": [[id, y, [byte, …]], …]}. What is
/// missing in it is null or absent in the answer; an alternative without bytes is "token_id:7".
std::string logprobs_json(Api api, const std::vector<TokenLog>& logs);

/// Of all tokens; that of a text without any is the least.
double mean_logprob(const std::vector<TokenLog>& logs);

}  // namespace holdfast::gateway
