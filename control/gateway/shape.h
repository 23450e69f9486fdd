#pragma once
// What the gateway must know about a request to show it again, to whoever attaches later: it
// travels in Submit::meta and comes back with RequestInfo.

#include <string>

namespace holdfast::gateway {

enum class Api { kCompletions, kChat };

struct Shape {
  Api api = Api::kCompletions;
  bool stream = false;
  bool include_usage = false;
  int choices = 1;
  std::string body_hash;  // of the POST that made it
  std::string user;       // OpenAI's `user`
};

std::string encode_shape(const Shape& shape);
/// Requests of other clients have another meta or none: defaults then.
Shape decode_shape(const std::string& meta);

}  // namespace holdfast::gateway
