#pragma once
// The shape of a request's answer: what the gateway must know to show it again to any client that
// attaches later. It travels in Submit::meta and comes back with RequestInfo.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "shared/chat/output_parser.h"

namespace holdfast::gateway {

/// The API through which a request came; its answers have that API's form.
enum class Api {
  kCompletions,
  kChat,
  kEmbeddings,
  kMessages,
  kTokens,  // POST /v1/requests: tokens as they are, without a dialect
  kOllamaChat,
  kOllamaGenerate,  // a conversation of one turn
  kOllamaRaw,       // generate without a template
  kOllamaEmbed,
  kOllamaEmbeddings,  // the older form, of one vector
};
/// True if the prompt is a conversation, so that the answer is parsed as the model writes.
bool is_chat(Api api);
/// True if the answer is vectors.
bool is_embedding(Api api);
/// True for the endpoints of Ollama's API.
bool is_ollama(Api api);
/// Returns "/v1/chat/completions", …
std::string_view api_path(Api api);

/// The form of one request's answer, and what it takes to build it from tokens.
struct Shape {
  Api api = Api::kCompletions;
  bool stream = false;
  bool include_usage = false;
  int choices = 1;
  std::string body_hash;  // of the POST that made the request
  std::string user;       // OpenAI's `user`
  std::string client_id;  // what the client calls the request: X-Client-Request-Id
  std::string output;     // of its model, when the request was made: chat::read_output
  bool tools = false;     // the answer is searched for tool calls
  chat::JsonArguments json_arguments = {};  // of these tools
  // best_of: this many choices of each prompt are shown, those of the highest mean log-probability.
  // 0 = all, in their order.
  int returned_choices = 0;
  bool hide_logs = false;      // log-probabilities serve best_of alone
  bool usage_details = false;  // the usage tells cached and reasoning tokens
  int prompt_logprobs = -1;    // vLLM's: alternatives of each token of the prompt; -1 = off
  bool function_call = false;  // OpenAI's old form of one call instead of tool_calls
  // Members for embeddings alone.
  bool base64 = false;          // little-endian float32 instead of numbers
  std::int64_t dimensions = 0;  // first numbers of each vector, 0 = all
  bool normalize = true;
};
/// True if nothing can be shown before the end, so that there is no stream.
bool is_whole(const Shape& shape);

/// Returns how the text of a chat answer is parsed; nullopt if all of it is content.
std::optional<chat::OutputOptions> parse_options(const Shape& shape);

/// Returns the shape as JSON for Submit::meta; decode_shape() reads it.
std::string encode_shape(const Shape& shape);
/// Returns the defaults for requests of other clients, whose meta is another text or empty.
Shape decode_shape(const std::string& meta);

}  // namespace holdfast::gateway
