#pragma once
// The bodies of Ollama's /api/chat, /api/generate, /api/embed and /api/embeddings
// (github.com/ollama/ollama, docs/api.md), made bodies of our own endpoints and parsed as these
// are.

#include "control/gateway/common/params.h"

namespace holdfast::gateway {

/// Each parses a body as the function of params.h does: false if it is refused, with the parameter.
/// Options have Ollama's names, ranges and defaults; what has no effect here is in `ignored`.
bool parse_ollama_chat(const nlohmann::ordered_json& body, const ParamLimits& limits,
                       Generation* out, FieldError* error);
bool parse_ollama_generate(const nlohmann::ordered_json& body, const ParamLimits& limits,
                           Generation* out, FieldError* error);
bool parse_ollama_embed(const nlohmann::ordered_json& body, const ParamLimits& limits,
                        Generation* out, FieldError* error);
bool parse_ollama_embeddings(const nlohmann::ordered_json& body, const ParamLimits& limits,
                             Generation* out, FieldError* error);
/// Parses a body that only wants its model loaded: one without a prompt or messages. The request
/// that loads it makes one token.
bool parse_ollama_load(const nlohmann::ordered_json& body, const ParamLimits& limits,
                       Generation* out, FieldError* error);

/// True if the body of chat (`chat`) or generate only wants its model loaded.
bool is_ollama_load(const nlohmann::ordered_json& body, bool chat);

/// The name of a model without Ollama's tag for "no tag": "llama3:latest" is "llama3".
std::string without_latest(const std::string& name);

/// Returns the model that a body names, without ":latest"; older clients call the member "name".
/// Empty if there is none, or no text.
std::string named_model(const nlohmann::ordered_json& body);

}  // namespace holdfast::gateway
