#include "tests/fuzz/body_check.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/gateway/anthropic/message_body.h"
#include "control/gateway/common/model_binding.h"
#include "control/gateway/http/json_body.h"
#include "control/gateway/responses/response_body.h"
#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/base/json_text.h"
#include "shared/wire/frame.h"

namespace holdfast::fuzz {

using namespace holdfast::gateway;
using json = nlohmann::ordered_json;

namespace {

struct Made {
  bool ok = false;
  std::string text;  // everything that goes to the daemon
  std::string error;
};

/// Checks that what was read makes a frame that the daemon takes, and reads back the same.
void check_frame(const Generation& out) {
  CHECK(wire::check_encodable(out.submit).has_value());
  const std::string frame = wire::encode(out.submit);
  const auto again = wire::decode(frame);
  CHECK(again.has_value() && wire::encode(*again) == frame);
}

Made make(std::string_view bytes, ParseBody parse) {
  Made made;
  json body;
  FieldError error;
  Generation out;
  const bool is_object = parse_json_object(bytes, &body, &error);
  made.ok = is_object && parse(body, {}, &out, &error);
  CHECK(made.ok == error.message.empty());
  CHECK(made.ok || !is_object || !error.param.empty());
  CHECK(is_valid_utf8(error.message) && is_valid_utf8(error.param));
  CHECK(error.message.size() <= 1'200);
  made.error = error.param + ": " + error.message;
  if (!made.ok) return made;
  CHECK(!out.submit.prompts.empty() && out.submit.n >= 1 && out.submit.stops.size() <= 16);
  bind_to_model(&out);
  made.text = out.submit.sampling.extra;
  for (const auto& prompt : out.submit.prompts) {
    made.text += prompt.text.value_or("") + prompt.messages_json.value_or("");
    if (prompt.messages_json) CHECK(is_json(*prompt.messages_json));
  }
  if (!out.submit.sampling.extra.empty()) CHECK(is_json(out.submit.sampling.extra));
  CHECK(hash_body("/", body).size() == 64);
  check_frame(out);
  const Shape shape = decode_shape(encode_shape(out.shape));
  CHECK(encode_shape(shape) == encode_shape(out.shape));
  return made;
}

}  // namespace

bool parse_turn(const json& body, const ParamLimits& limits, Generation* out, FieldError* error) {
  ResponsesRequest request;
  json chat;
  return parse_response(body, &request, error) &&
         chat_body(request, {request.items}, &chat, error) && parse_chat(chat, limits, out, error);
}

void check_body(std::string_view bytes, ParseBody parse) {
  const Made first = make(bytes, parse);
  // Bytes of a number are counted as two, and written in up to 24.
  constexpr std::size_t kMost = 2 * BodyBudget::kBytesGrowth;
  CHECK(first.text.size() <= BodyBudget::kBytesFree + kMost * (bytes.size() + 64));
  const Made second = make(bytes, parse);
  CHECK(first.ok == second.ok && first.text == second.text && first.error == second.error);
}

}  // namespace holdfast::fuzz
