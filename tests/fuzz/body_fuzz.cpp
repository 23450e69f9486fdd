// Goal: no body crashes the readers of the endpoints, takes more of the stack than bounds allow, or
// becomes much more than it was; reading it twice gives the same. Method: the first byte picks the
// endpoint, or a part of a body that the rest is put into (tools, a choice of tools, arguments of a
// call, a schema, an item of a response, a line of a batch's file), so that short inputs reach deep
// readers. Seeds are in tests/fuzz/seeds/body.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "control/gateway/batch_input.h"
#include "control/gateway/json_fields.h"
#include "control/gateway/message_body.h"
#include "control/gateway/params.h"
#include "control/gateway/response_body.h"
#include "control/gateway/tool_fields.h"
#include "shared/base/check.h"

namespace {

using namespace holdfast;
using namespace holdfast::gateway;
using json = nlohmann::ordered_json;
using Parse = bool (*)(const json&, const ParamLimits&, Generation*, FieldError*);

struct Made {
  bool ok = false;
  std::string text;  // all that goes to the daemon
  std::string error;
};

Made make(std::string_view bytes, Parse parse) {
  Made made;
  json body;
  FieldError error;
  Generation out;
  made.ok = parse_json_object(bytes, &body, &error) && parse(body, {}, &out, &error);
  CHECK(made.ok == error.message.empty());
  made.error = error.message;
  if (!made.ok) return made;
  CHECK(!out.submit.prompts.empty() && out.submit.n >= 1 && out.submit.stops.size() <= 16);
  bind_to_calls(&out);
  made.text = out.submit.sampling.extra;
  for (const auto& prompt : out.submit.prompts) {
    made.text += prompt.text.value_or("") + prompt.messages_json.value_or("");
    if (prompt.messages_json) CHECK(is_json(*prompt.messages_json));
  }
  if (!out.submit.sampling.extra.empty()) CHECK(is_json(out.submit.sampling.extra));
  CHECK(hash_body("/", body).size() == 64);
  return made;
}

void check(std::string_view bytes, Parse parse) {
  const Made first = make(bytes, parse);
  // Bytes of a number are counted as two, and written in up to 24.
  constexpr std::size_t kMost = 2 * BodyBudget::kBytesGrowth;
  CHECK(first.text.size() <= BodyBudget::kBytesFree + kMost * (bytes.size() + 64));
  const Made second = make(bytes, parse);
  CHECK(first.ok == second.ok && first.text == second.text && first.error == second.error);
}

bool parse_turn(const json& body, const ParamLimits& limits, Generation* out, FieldError* error) {
  ResponseWish wish;
  json chat;
  return parse_response(body, &wish, error) && chat_body(wish, {wish.items}, &chat, error) &&
         parse_chat(chat, limits, out, error);
}

void check_lines(const std::string& bytes) {
  std::string codes[2];
  std::size_t lines[2];
  for (const int way : {0, 1}) {
    BatchReader reader("/v1/chat/completions", 300);
    const std::size_t step = way == 0 ? bytes.size() + 1 : 7;
    for (std::size_t at = 0; at < bytes.size(); at += step) reader.feed(bytes.substr(at, step));
    for (const BatchError& error : reader.end()) {
      CHECK(!error.code.empty() && !error.message.empty());
      codes[way] += error.code + std::to_string(error.line) + ";";
    }
    lines[way] = reader.lines().size();
    for (const BatchLine& line : reader.lines()) {
      CHECK(line.from >= 0 && static_cast<std::size_t>(line.from) + line.bytes <= bytes.size());
      CHECK(!line.custom_id.empty());
    }
  }
  CHECK(codes[0] == codes[1] && lines[0] == lines[1]);
}

std::string chat_with(const std::string& more) {
  return R"({"model":"m","messages":[{"role":"user","content":"a"}])" + more + "}";
}

std::string quoted(const std::string& text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string tool = R"({"type":"function","function":{"name":"f","parameters":)";
  switch (static_cast<std::uint8_t>(data[0] - '0') % 11) {
    case 0:
      check(bytes, parse_completion);
      break;
    case 1:
      check(bytes, parse_chat);
      break;
    case 2:
      check(bytes, parse_message);
      break;
    case 3:
      check(bytes, parse_embedding);
      break;
    case 4:
      check(bytes, parse_turn);
      break;
    case 5:
      check_lines(bytes);
      break;
    case 6:
      check(chat_with(R"(,"tool_choice":"required","tools":)" + bytes), parse_chat);
      break;
    case 7:
      check(chat_with(R"(,"tools":[)" + tool + R"({}}}],"tool_choice":)" + bytes), parse_chat);
      break;
    case 8:
      check(R"({"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f",)"
            R"("arguments":)" +
                quoted(bytes) + "}}]}]}",
            parse_chat);
      break;
    case 9:
      check(chat_with(R"(,"guided_json":)" + quoted(bytes)), parse_chat);
      check(chat_with(R"(,"tool_choice":"required","tools":[)" + tool + bytes + "}}]"), parse_chat);
      break;
    default:
      check(R"({"model":"m","input":[)" + bytes + "]}", parse_turn);
      check(R"({"model":"m","max_tokens":1,"messages":[)" + bytes + "]}", parse_message);
  }
  return 0;
}
