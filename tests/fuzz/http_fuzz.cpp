// Goal: no bytes from the network crash the gateway's readers, and how they are cut changes
// nothing. Method: the first byte picks a reader: the HTTP parser (whole against in pieces), the
// bodies of the two generation endpoints, event ids and query indexes, the shape that comes back
// with a request.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "control/gateway/http_parse.h"
#include "control/gateway/json_fields.h"
#include "control/gateway/params.h"
#include "control/gateway/sse.h"
#include "shared/base/check.h"

namespace {

using namespace holdfast::gateway;
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
    // A request that is good is good in pieces too, and the other way round.
    CHECK((parts.state == State::kDone) == (whole.state == State::kDone));
    CHECK(parts.body == whole.body && parts.path == whole.path);
  }
}

void check_body(std::string_view bytes, bool chat) {
  nlohmann::ordered_json body;
  FieldError error;
  Generation out;
  const bool ok = parse_json_object(bytes, &body, &error) &&
                  (chat ? parse_chat : parse_completion)(body, {}, &out, &error);
  CHECK(ok == error.message.empty());
  if (!ok) return;
  CHECK(!out.submit.prompts.empty() && out.submit.n >= 1 && out.submit.stops.size() <= 16);
  CHECK(hash_body("/", body).size() == 64);
}

void check_ids(const std::string& text) {
  if (const auto id = parse_event_id(text)) {
    const auto again = parse_event_id(format_event_id(*id));
    CHECK(again && again->request_id == id->request_id && again->shown == id->shown);
  }
  parse_indexes(text);
  decode_shape(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      check_http(bytes);
      break;
    case 1:
      check_body(bytes, false);
      break;
    case 2:
      check_body(bytes, true);
      break;
    default:
      check_ids(bytes);
  }
  return 0;
}
