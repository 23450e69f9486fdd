#include "control/gateway/common/vectors.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "control/gateway/http/errors.h"
#include "control/gateway/http/json_body.h"
#include "shared/base/base64.h"
#include "shared/base/json_fields.h"
#include "shared/wire/vector_text.h"

namespace holdfast::gateway {
namespace {

/// Truncates a vector to its first numbers, normalized again if the whole one was.
void shorten(std::vector<float>& vector, const Shape& shape) {
  if (shape.dimensions == 0) return;
  vector.resize(static_cast<std::size_t>(shape.dimensions));
  if (!shape.normalize) return;
  double squares = 0;
  for (const float v : vector) squares += static_cast<double>(v) * v;
  if (squares == 0) return;
  for (float& v : vector) v = static_cast<float>(v / std::sqrt(squares));
}

/// Writes each number with the fewest digits that read back as the same float.
std::string numbers(const std::vector<float>& vector) {
  std::string out = "[";
  for (const float v : vector) {
    if (out.size() > 1) out += ",";
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, v);
    out.append(text, end.ptr);
  }
  return out + "]";
}

std::string base64(const std::vector<float>& vector) {
  const std::string_view bytes(reinterpret_cast<const char*>(vector.data()),
                               vector.size() * sizeof(float));
  return "\"" + to_base64(bytes) + "\"";
}

}  // namespace

VectorCollector::VectorCollector(const Shape& shape, wire::RequestInfo info)
    : shape_(shape), info_(std::move(info)) {
  vectors_.resize(
      std::max(info_.choices.size(), static_cast<std::size_t>(std::max(shape_.choices, 1))));
}

void VectorCollector::on_event(const wire::Event& event) {
  const auto c = static_cast<std::size_t>(event.choice);
  if (event.choice < 0 || c >= vectors_.size() || event.extra.empty()) return;
  vectors_[c] = wire::read_vector(event.extra[0]);
}

Response VectorCollector::on_fin(const wire::RequestInfo& info) {
  info_ = info;
  std::string data;
  for (std::size_t c = 0; c < vectors_.size(); ++c) {
    std::vector<float>& vector = vectors_[c];
    if (vector.empty()) return error_response(failure_of(info_, static_cast<int>(c)));
    const auto width = static_cast<std::int64_t>(vector.size());
    if (shape_.dimensions > width) {
      return error_response(FieldError{"'dimensions' is " + std::to_string(shape_.dimensions) +
                                           ", the vectors of this model have " +
                                           std::to_string(width),
                                       "dimensions"});
    }
    shorten(vector, shape_);
    data += c == 0 ? "" : ",";
    data += "{\"object\":\"embedding\",\"index\":" + std::to_string(c) +
            ",\"embedding\":" + (shape_.base64 ? base64(vector) : numbers(vector)) + "}";
  }
  std::int64_t tokens = 0;
  for (const std::int64_t n : info_.prompt_tokens) tokens += n;
  const std::string count = std::to_string(tokens);
  Response response;
  response.body = "{\"object\":\"list\",\"data\":[" + data + "],\"model\":";
  append_json_string(response.body, model_name(info_));
  response.body += ",\"usage\":{\"prompt_tokens\":" + count + ",\"total_tokens\":" + count + "}}";
  return response;
}

}  // namespace holdfast::gateway
