#pragma once
// What the gateway must know about a request to show it again, to whoever attaches later: it
// travels in Submit::meta and comes back with RequestInfo.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "shared/chat/output_parser.h"

namespace holdfast::gateway {

enum class Api { kCompletions, kChat, kEmbeddings, kMessages };
/// Its prompt is a conversation, its answer is taken apart as the model writes.
bool is_chat(Api api);
/// "/v1/chat/completions", …
std::string_view api_path(Api api);

struct Shape {
  Api api = Api::kCompletions;
  bool stream = false;
  bool include_usage = false;
  int choices = 1;
  std::string body_hash;  // of the POST that made it
  std::string user;       // OpenAI's `user`
  std::string output;     // of its model, when the request was made: chat::read_output
  bool tools = false;     // calls of tools are looked for
  chat::JsonArguments json_arguments = {};  // of those tools
  // Of best_of: of the choices of each prompt so many are shown, those of the highest mean
  // log-probability. 0 = all, as they come.
  int keep = 0;
  bool hide_logs = false;      // log-probabilities were wanted for that alone
  bool usage_details = false;  // the usage says what was cached and what was reasoning
  int prompt_logprobs = -1;    // vLLM's: alternatives of each token of the prompt; -1 = off
  bool function_call = false;  // of a chat: a call is told as before there were tools
  // Of embeddings.
  bool base64 = false;          // little-endian float32 instead of numbers
  std::int64_t dimensions = 0;  // first numbers of each vector, 0 = all
  bool normalize = true;
};
/// Nothing of it can be shown before its end, so there is no stream.
bool is_whole(const Shape& shape);

/// How the text of a chat answer is taken apart; nullopt: it is all content.
std::optional<chat::OutputOptions> parse_options(const Shape& shape);

std::string encode_shape(const Shape& shape);
/// Requests of other clients have another meta or none: defaults then.
Shape decode_shape(const std::string& meta);

}  // namespace holdfast::gateway
