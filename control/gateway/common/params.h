#pragma once
// The bodies of /v1/completions, /v1/chat/completions and /v1/embeddings, parsed into a SUBMIT with
// OpenAI's defaults and ranges.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/gateway/http/body_budget.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/http/shape.h"
#include "shared/chat/prefill.h"
#include "shared/wire/messages.h"

namespace holdfast::gateway {

/// Bounds on what a body may ask for.
struct ParamLimits {
  std::size_t body_bytes = 1 << 20;          // of a POST, and of a line of a batch
  std::size_t conversation_bytes = 8 << 20;  // of all turns that a response continues
  std::int64_t n = 128;
  std::int64_t choices = 2'048;  // prompts × n
  std::size_t stops = 16;
  std::size_t stop_bytes = 1'024;     // of one stop string
  std::size_t bias_ids = 1'024;       // of logit_bias
  std::size_t echo_bytes = 16 << 20;  // of echoed prompts, for all choices together
};

/// Options of a request for its model's reasoning.
struct ThinkingOptions {
  std::optional<std::int64_t> tokens;  // upper bound
  std::optional<bool> on;              // as its template is told
  std::vector<std::string> fields;     // names of the fields that were set
};

/// A parsed body.
struct Generation {
  wire::Submit submit;  // without request id, keys and meta
  Shape shape;
  std::vector<std::string> ignored;  // parameters without effect
  std::string must_call;             // JSON list of {"name", "parameters"}: the first call is one
  bool one_call = false;             // no other call follows
  ThinkingOptions thinking;
  bool opens_answer = true;              // the chat's prompt ends with the opening of an answer
  std::optional<chat::Prefill> prefill;  // the begun answer in its last message
  BodyBudget budget;                     // of the body that was parsed
};

/// Parses the body, which must be an object. Returns false if it is refused; `error` names the
/// parameter.
bool parse_completion(const nlohmann::ordered_json& body, const ParamLimits& limits,
                      Generation* out, FieldError* error);
bool parse_chat(const nlohmann::ordered_json& body, const ParamLimits& limits, Generation* out,
                FieldError* error);
bool parse_embedding(const nlohmann::ordered_json& body, const ParamLimits& limits, Generation* out,
                     FieldError* error);

/// Returns 64 hex digits: BLAKE2b of `bytes` and `more` as two separate values.
std::string hash_bytes(std::string_view bytes, std::string_view more = {});
/// Returns 64 hex digits: BLAKE2b of the path and of the body with its members sorted, so that
/// neither their order nor white space matters.
std::string hash_body(std::string_view path, const nlohmann::ordered_json& body);

}  // namespace holdfast::gateway
