// Goal: no bytes from the network crash the gateway's readers, and it makes no difference how they
// are cut. Method: the first byte selects a reader: the HTTP parser (whole against in chunks), the
// bodies of the endpoints that make text or vectors, forms with files, cross-origin requests of
// browsers, event ids and query indexes, the shape that comes back with a request. Seeds are in
// tests/fuzz/seeds/http.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "control/gateway/anthropic/message_body.h"
#include "control/gateway/common/params.h"
#include "control/gateway/http/cors.h"
#include "control/gateway/http/http_parse.h"
#include "control/gateway/http/json_body.h"
#include "control/gateway/http/multipart.h"
#include "control/gateway/http/sse.h"
#include "control/gateway/responses/response_body.h"
#include "shared/base/check.h"

namespace {

using namespace holdfast::gateway;
using holdfast::FieldError;
using State = RequestParser::State;

struct Parsed {
  State state;
  std::string body;
  std::string path;
  int status = 0;
};

Parsed parse(std::string_view bytes, std::size_t step) {
  RequestParser parser({512, 256});
  std::string waiting;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    waiting += bytes.substr(at, step);
    const std::size_t used = parser.feed(waiting);
    CHECK(used <= waiting.size());
    waiting.erase(0, used);
    if (parser.state() == State::kDone || parser.state() == State::kFailed) break;
  }
  if (parser.state() != State::kDone) return {parser.state(), "", "", parser.failure_status()};
  return {State::kDone, parser.request().body, parser.request().path, 0};
}

void check_http(std::string_view bytes) {
  const Parsed whole = parse(bytes, bytes.size() + 1);
  CHECK(whole.body.size() <= 256);
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}}) {
    const Parsed parts = parse(bytes, step);
    // A request that is valid is valid in chunks too, and the other way round.
    CHECK((parts.state == State::kDone) == (whole.state == State::kDone));
    CHECK(parts.body == whole.body && parts.path == whole.path);
  }
}

using ParseBody = bool (*)(const nlohmann::ordered_json&, const ParamLimits&, Generation*,
                           FieldError*);

void check_body(std::string_view bytes, ParseBody parse_body) {
  nlohmann::ordered_json body;
  FieldError error;
  Generation out;
  const bool ok = parse_json_object(bytes, &body, &error) && parse_body(body, {}, &out, &error);
  CHECK(ok == error.message.empty());
  if (!ok) return;
  CHECK(!out.submit.prompts.empty() && out.submit.n >= 1 && out.submit.stops.size() <= 16);
  CHECK(hash_body("/", body).size() == 64);
}

/// Checks a response's body, and the chat that it becomes.
void check_response(std::string_view bytes) {
  nlohmann::ordered_json body, chat;
  FieldError error;
  ResponsesRequest request;
  Generation out;
  const bool ok =
      parse_json_object(bytes, &body, &error) && parse_response(body, &request, &error) &&
      chat_body(request, {request.items}, &chat, &error) && parse_chat(chat, {}, &out, &error);
  CHECK(ok == error.message.empty());
}

/// Checks a form; the first line is the Content-Type.
void check_form(std::string_view bytes) {
  const std::size_t line = bytes.find('\n');
  if (line == std::string_view::npos) return;
  const std::string_view body = bytes.substr(line + 1);
  std::vector<FormPart> parts;
  FieldError error;
  const bool ok = parse_form(bytes.substr(0, line), body, &parts, &error);
  CHECK(ok == error.message.empty());
  CHECK(parts.size() <= 64);
  for (const FormPart& part : parts) {
    CHECK(!part.name.empty());
    // A part's data lies within the body: it is not copied.
    CHECK(part.data.empty() || (part.data.data() >= body.data() &&
                                part.data.data() + part.data.size() <= body.data() + body.size()));
  }
}

/// Checks CORS: the first line is an origin, the second has names of headers. No other origin is
/// allowed, and no input breaks the lines of the answer.
void check_cors(std::string_view bytes) {
  const std::size_t line = std::min(bytes.find('\n'), bytes.size());
  Request request;
  request.method = "OPTIONS";
  request.path = "/v1/models";
  const std::string origin(bytes.substr(0, line));
  request.headers = {{"Origin", origin},
                     {"Access-Control-Request-Method", "POST"},
                     {"Access-Control-Request-Headers",
                      std::string(bytes.substr(std::min(line + 1, bytes.size())))}};
  const Cors cors = Cors::allow({"https://app.example"}).value();
  const bool allowed = origin == "https://app.example";
  CHECK((cors.headers(request).size() == 3) == allowed);
  const auto answer = cors.preflight(request, "POST");
  CHECK(answer.has_value() && (answer->status == 200) == allowed);
  const std::string head = response_head(*answer, true, false, 0);
  CHECK(head.find("\r\n\r\n") == head.size() - 4);
  (void)Cors::allow({origin});
}

void check_ids(const std::string& text) {
  if (const auto id = parse_event_id(text)) {
    const auto again = parse_event_id(format_event_id(*id));
    CHECK(again && again->request_id == id->request_id && again->sent == id->sent);
  }
  parse_indexes(text);
  decode_shape(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (static_cast<std::uint8_t>(data[0] - '0') % 9) {
    case 0:
      check_http(bytes);
      break;
    case 1:
      check_body(bytes, parse_completion);
      break;
    case 2:
      check_body(bytes, parse_chat);
      break;
    case 3:
      check_body(bytes, parse_message);
      break;
    case 4:
      check_body(bytes, parse_embedding);
      break;
    case 5:
      check_form(bytes);
      break;
    case 6:
      check_cors(bytes);
      break;
    case 7:
      check_response(bytes);
      break;
    default:
      check_ids(bytes);
  }
  return 0;
}
