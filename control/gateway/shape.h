#pragma once
// What the gateway must know about a request to show it again, to whoever attaches later: it
// travels in Submit::meta and comes back with RequestInfo.

#include <optional>
#include <string>

#include "shared/chat/output_parser.h"

namespace holdfast::gateway {

enum class Api { kCompletions, kChat };

struct Shape {
  Api api = Api::kCompletions;
  bool stream = false;
  bool include_usage = false;
  int choices = 1;
  std::string body_hash;  // of the POST that made it
  std::string user;       // OpenAI's `user`
  std::string output;     // of its model, when the request was made: chat::read_output
  bool tools = false;     // calls of tools are looked for
};
/// How the text of a chat answer is taken apart; nullopt: it is all content.
std::optional<chat::OutputOptions> parse_options(const Shape& shape);

std::string encode_shape(const Shape& shape);
/// Requests of other clients have another meta or none: defaults then.
Shape decode_shape(const std::string& meta);

}  // namespace holdfast::gateway
