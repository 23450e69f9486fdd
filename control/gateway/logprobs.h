#pragma once
// Log-probabilities in OpenAI's two shapes.

#include <string>
#include <vector>

#include "control/gateway/choice_text.h"
#include "control/gateway/shape.h"

namespace holdfast::gateway {

/// The value of "logprobs". TokenLog::extra is {"logprob": x, "top": [{"id": t, "token": "…"?,
/// "logprob": y}, …]}; what is missing in it is null or absent in the answer.
std::string logprobs_json(Api api, const std::vector<TokenLog>& logs);

}  // namespace holdfast::gateway
