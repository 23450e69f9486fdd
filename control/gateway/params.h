#pragma once
// The bodies of /v1/completions, /v1/chat/completions and /v1/embeddings as a SUBMIT. OpenAI's
// defaults and ranges.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/gateway/body_budget.h"
#include "control/gateway/errors.h"
#include "control/gateway/shape.h"
#include "shared/chat/prefill.h"
#include "shared/wire/messages.h"

namespace holdfast::gateway {

struct ParamLimits {
  std::size_t body_bytes = 1 << 20;          // of a POST, and of a line of a batch
  std::size_t conversation_bytes = 8 << 20;  // of all turns that a response goes on from
  std::int64_t n = 128;
  std::int64_t choices = 2'048;  // prompts x n
  std::size_t stops = 16;
  std::size_t stop_bytes = 1'024;     // of one stop string
  std::size_t bias_ids = 1'024;       // of logit_bias
  std::size_t echo_bytes = 16 << 20;  // of prompts that are said again, for all choices together
};

/// What a request says of its model's reasoning.
struct ThinkingWish {
  std::optional<std::int64_t> tokens;  // at most
  std::optional<bool> on;              // as its template was told
  std::vector<std::string> fields;     // that said so
};

struct Generation {
  wire::Submit submit;  // without request id, keys and meta
  Shape shape;
  std::vector<std::string> ignored;  // parameters that had no effect
  std::string must_call;             // JSON list of {"name", "parameters"}: one of them comes first
  bool one_call = false;             // and no other follows
  ThinkingWish thinking;
  bool opens_answer = true;              // the prompt of a chat ends with the opening of an answer
  std::optional<chat::Prefill> prefill;  // what its last message has begun of it
  BodyBudget budget;                     // of the body that it was read from
};

/// False: `error` names the parameter. `body` is an object.
bool parse_completion(const nlohmann::ordered_json& body, const ParamLimits& limits,
                      Generation* out, FieldError* error);
bool parse_chat(const nlohmann::ordered_json& body, const ParamLimits& limits, Generation* out,
                FieldError* error);
bool parse_embedding(const nlohmann::ordered_json& body, const ParamLimits& limits, Generation* out,
                     FieldError* error);

/// 64 hex digits: BLAKE2b of the bytes and of what follows them, without joining the two.
std::string hash_bytes(std::string_view bytes, std::string_view more = {});
/// 64 hex digits: BLAKE2b of the path and of the body with its members sorted, so that neither the
/// order of members nor white space matter.
std::string hash_body(std::string_view path, const nlohmann::ordered_json& body);

}  // namespace holdfast::gateway
