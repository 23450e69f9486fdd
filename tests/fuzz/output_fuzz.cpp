// Goal: parsing any output of a model neither crashes nor depends on how the text is cut, and
// nothing is made that is not in the text. Method: the first byte selects the family's format, the
// second the options and the cuts, the rest are words of the families and plain bytes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/base/json_text.h"
#include "shared/chat/output_parser.h"
#include "tests/fuzz/json_maker.h"

namespace {

using namespace holdfast;
using namespace holdfast::chat;

constexpr const char* kWords[] = {"<tool_call>",
                                  "</tool_call>",
                                  "<think>",
                                  "</think>",
                                  "{\"name\":\"f\",\"arguments\":",
                                  "{\"name\": \"f\", \"parameters\": ",
                                  "<|python_tag|>",
                                  "<function=f>",
                                  "</function>",
                                  "[TOOL_CALLS]",
                                  "[ARGS]",
                                  "[{\"name\":\"f\",\"arguments\":{}}]",
                                  "<\xEF\xBD\x9Ctool\xE2\x96\x81"
                                  "call\xE2\x96\x81"
                                  "begin\xEF\xBD\x9C>",
                                  "<\xEF\xBD\x9Ctool\xE2\x96\x81sep\xEF\xBD\x9C>",
                                  "<\xEF\xBD\x9Ctool\xE2\x96\x81"
                                  "call\xE2\x96\x81"
                                  "end\xEF\xBD\x9C>",
                                  "<\xEF\xBD\x9Ctool\xE2\x96\x81"
                                  "calls\xE2\x96\x81"
                                  "begin\xEF\xBD\x9C>",
                                  "<|channel|>",
                                  "analysis",
                                  "final",
                                  "commentary to=functions.f ",
                                  "<|message|>",
                                  "<|call|>",
                                  "<|end|>",
                                  "<|return|>",
                                  "<|start|>assistant",
                                  "<|constrain|>json",
                                  ">>>f\n",
                                  ">>>all\n",
                                  "<arg_key>",
                                  "</arg_key>",
                                  "<arg_value>",
                                  "</arg_value>",
                                  "<parameter=a>",
                                  "</parameter>",
                                  "<seed:tool_call>",
                                  "</seed:tool_call>",
                                  "<minimax:tool_call>",
                                  "</minimax:tool_call>",
                                  "<invoke name=\"f\">",
                                  "</invoke>",
                                  "<parameter name=\"a\">",
                                  "<|START_ACTION|>",
                                  "<|END_ACTION|>",
                                  "[{\"tool_name\":\"f\",\"parameters\":{\"a\":1}}]",
                                  "<|START_THINKING|>",
                                  "<|END_THINKING|>",
                                  "<|START_RESPONSE|>",
                                  "<|END_RESPONSE|>",
                                  "<|tool_call|>",
                                  "<|tool_call>call:f{a:<|\"|>x<|\"|>}<tool_call|>",
                                  "<|channel>thought\n",
                                  "<channel|>",
                                  "<|\"|>",
                                  "call:f{",
                                  "f",
                                  "a",
                                  "1",
                                  "\"a\"",
                                  "{",
                                  "}",
                                  "[",
                                  "]",
                                  ",",
                                  ":",
                                  "\n",
                                  " ",
                                  "\"",
                                  "\\",
                                  "true",
                                  "null",
                                  "{\"a\":",
                                  "<",
                                  "<|",
                                  "\xC3\xA9",
                                  "\xF0\x9F\x98\x80"};

struct Said {
  std::string content;
  std::string reasoning;
  std::vector<CallDelta> calls;
  bool operator==(const Said&) const = default;
};

void add(const OutputDelta& delta, Said& to) {
  to.content += delta.content;
  to.reasoning += delta.reasoning;
  for (const CallDelta& call : delta.calls) {
    const auto at = static_cast<std::size_t>(call.index);
    CHECK(call.index >= 0 && at <= to.calls.size());
    if (at == to.calls.size()) {
      CHECK(!call.name.empty());
      to.calls.push_back({call.index, call.name, ""});
    }
    to.calls[at].arguments += call.arguments;
  }
}

Said parse_output(const OutputOptions& options, std::string_view text, std::size_t step) {
  OutputParser parser(options);
  Said said;
  for (std::size_t at = 0; at < text.size(); at += step) {
    add(parser.feed(text.substr(at, step)), said);
  }
  const bool pending = parser.pending();
  const OutputDelta last = parser.finish();
  CHECK(pending || last.empty());
  add(last, said);
  CHECK(parser.calls() == static_cast<int>(said.calls.size()));
  return said;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Choices choices(data, size);
  OutputOptions options;
  options.format = static_cast<ToolFormat>(choices.below(kToolFormats));
  const unsigned flags = choices.byte();
  options.tools = (flags & 1) != 0;
  options.reasoning = (flags & 2) != 0;
  options.starts_in_reasoning = (flags & 4) != 0;
  options.starts_in_text = (flags & 16) != 0;
  if ((flags & 8) != 0) options.json_arguments["f"].insert("a");
  std::string text;
  while (!choices.empty()) {
    if (choices.byte() % 4 == 0) {
      const std::string_view bytes = choices.bytes(1 + choices.below(8));
      if (is_valid_utf8(bytes)) text += bytes;
    } else {
      text += choices.from(kWords);
    }
  }
  const Said whole = parse_output(options, text, text.size() + 1);
  CHECK(parse_output(options, text, 1) == whole);
  CHECK(parse_output(options, text, 2 + flags / 16) == whole);
  // Arguments are written as JSON: a byte may become six, and names and quotes are added.
  std::size_t bytes = whole.content.size() + whole.reasoning.size();
  for (const CallDelta& call : whole.calls) bytes += call.arguments.size();
  CHECK(bytes <= 8 * text.size() + 64);
  return 0;
}
