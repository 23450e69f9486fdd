#pragma once
// Questions about tokens: what a model's vocabulary makes of a text, a chat or ids. The daemon's
// helpers do the work; nothing is stored.

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "control/gateway/common/context.h"
#include "control/gateway/common/params.h"

namespace holdfast::gateway {

/// The question of a body.
struct TokenizeRequest {
  std::shared_ptr<nlohmann::ordered_json> args;  // of the daemon's verb; an object
  bool token_texts = false;                      // vLLM's return_token_strs
  bool with_token_bytes = false;                 // llama-server's option
  std::vector<std::string> ignored;
};

/// One kind of question: the daemon's verb, how a body is read, how the answer is shown.
struct TokenQuestion {
  const char* verb;
  /// Returns false and sets `error` if the body is wrong.
  bool (*read)(const nlohmann::ordered_json& body, const ParamLimits& limits,
               TokenizeRequest* request, FieldError* error);
  /// Answers with the daemon's document. May throw what the JSON library throws.
  void (*show)(const ExchangePtr& exchange, const TokenizeRequest& request,
               const nlohmann::ordered_json& document);
};

/// Asks the daemon and answers. A long text waits for a slot of its tenant, as reading it and
/// writing its answer occupy a thread that also serves the other tenants. Runs on the exchange's
/// strand.
void ask_tokens(Context& context, const ExchangePtr& exchange, const TokenQuestion& question);

/// Makes `request` the question for the tokens of the prompt that a generation would have.
void count_prompt(Generation generation, TokenizeRequest* request);

/// Returns the number of tokens in the daemon's answer.
std::int64_t count_of(const nlohmann::ordered_json& document);

}  // namespace holdfast::gateway
