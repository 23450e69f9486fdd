// Any bytes whatever as a chat template, rendered with some messages and tools. Run under
// AddressSanitizer and UBSan. A crash, a leak, an error without a line, or a template that takes
// long or much memory in spite of its bounds (libFuzzer's own limits) is a bug: templates come with
// models and are not trusted. Seeds: templates of many forms.

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/jinja/chat_template.h"

namespace {

using namespace holdfast;
using namespace holdfast::text;

ChatInput input() {
  ChatInput in;
  in.messages_json =
      R"([{"role":"system","content":"Be ß brief."},{"role":"user","content":"Wie geht's? \n 3"},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":)"
      R"({"name":"f","arguments":{"x":[1,2.5,true,null,"y"],"k":{"z":-9007199254740993}}}}]},)"
      R"({"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"  ok\t"}]}])";
  in.tools_json = R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";
  in.extra_json = R"({"n":3,"many":[3,1,2,1],"text":"a b, c","none":null,"real":0.5})";
  in.bos_token = "<s>";
  in.eos_token = "</s>";
  in.date = "2026-11-25";
  return in;
}

void expect_line(const Error& error) {
  if (error.what.find("chat template") == std::string::npos) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ChatInput in = input();
  const auto made = ChatTemplate::parse({reinterpret_cast<const char*>(data), size});
  if (!made) {
    expect_line(made.error());
    return 0;
  }
  if (const auto out = (*made)->render(in); !out) expect_line(out.error());
  return 0;
}
