// Goal: no body crashes the readers of the endpoints, takes more of the stack than bounds allow, or
// becomes much larger than it is; reading it twice gives the same. Method: the first byte selects
// the endpoint, or a part of a body that the rest is put into (tools, a choice of tools, arguments
// of a call, a schema, an item of a response, a line of a batch's file), so that short inputs reach
// deep readers. Seeds are in tests/fuzz/seeds/body.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "control/gateway/anthropic/message_body.h"
#include "control/gateway/common/params.h"
#include "control/gateway/http/json_body.h"
#include "control/gateway/objects/batch_input.h"
#include "shared/base/check.h"
#include "tests/fuzz/body_check.h"

namespace {

using namespace holdfast;
using namespace holdfast::gateway;
using fuzz::parse_turn;

void check(std::string_view bytes, fuzz::ParseBody parse) {
  fuzz::check_body(bytes, parse);
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
