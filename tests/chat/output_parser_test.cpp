// Goal: what models write in their own formats becomes content, reasoning and calls, the same
// however the text is cut; what only looks like a call stays text. Method: texts as the families'
// templates write them, each whole, byte by byte and cut at random; broken and hostile texts as
// well.
#include "shared/chat/output_parser.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <random>
#include <sstream>

namespace holdfast::chat::output_parser_test {
namespace {

struct Call {
  std::string name;
  std::string arguments;
  bool operator==(const Call&) const = default;
};
struct Parts {
  std::string content;
  std::string reasoning;
  std::vector<Call> calls;
  bool operator==(const Parts&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Parts& p) {
  out << "content <" << p.content << "> reasoning <" << p.reasoning << ">";
  for (const Call& c : p.calls) out << " call " << c.name << " <" << c.arguments << ">";
  return out;
}

void add(Parts& parts, const OutputDelta& delta) {
  parts.content += delta.content;
  parts.reasoning += delta.reasoning;
  for (const CallDelta& c : delta.calls) {
    if (!c.name.empty()) {
      EXPECT_EQ(c.index, static_cast<int>(parts.calls.size()));
      parts.calls.push_back({c.name, {}});
    }
    ASSERT_LT(static_cast<std::size_t>(c.index), parts.calls.size());
    parts.calls[static_cast<std::size_t>(c.index)].arguments += c.arguments;
  }
}

Parts parse(const OutputOptions& options, const std::string& text,
            const std::function<std::size_t()>& size) {
  OutputParser parser(options);
  Parts parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t n = std::min(std::max<std::size_t>(size(), 1), text.size() - at);
    add(parts, parser.feed(std::string_view(text).substr(at, n)));
    at += n;
  }
  const bool pending = parser.pending();
  const OutputDelta last = parser.finish();
  EXPECT_TRUE(pending || last.empty()) << text;
  add(parts, last);
  EXPECT_EQ(parser.calls(), static_cast<int>(parts.calls.size()));
  return parts;
}

/// Parses the text whole; the same is expected of every other cut.
Parts parse(const OutputOptions& options, const std::string& text) {
  const Parts whole = parse(options, text, [&] { return text.size(); });
  EXPECT_EQ(parse(options, text, [] { return 1; }), whole) << text;
  std::mt19937 random(static_cast<unsigned>(text.size()));
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(parse(options, text, [&] { return random() % 7; }), whole) << text;
  }
  return whole;
}

struct Case {
  ToolFormat format;
  std::string text;
  Parts parts;
};

const std::string kArguments = R"({"city": "Paris", "n": [1, {"x": "}\" ]"}]})";
const Parts kOneCall = {"", "", {{"weather", kArguments}}};
const Parts kTwoCalls = {"Let me see.", "", {{"weather", kArguments}, {"time", "{}"}}};

void expect_parts(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    OutputOptions options;
    options.format = c.format;
    options.tools = true;
    EXPECT_EQ(parse(options, c.text), c.parts) << tool_format_name(c.format) << ": " << c.text;
  }
}

TEST(OutputParser, ToolCalls_WithHermesOrLlama3Format_AreParsed) {
  const std::string& a = kArguments;
  const Parts& one = kOneCall;
  const Parts& two = kTwoCalls;
  const std::vector<Case> cases = {
      {ToolFormat::kHermes,
       "<tool_call>\n{\"name\": \"weather\", \"arguments\": " + a + "}\n</tool_call>", one},
      {ToolFormat::kHermes,
       "Let me see.\n<tool_call>{\"arguments\": " + a +
           ", \"name\": \"weather\"}</tool_call>\n"
           "<tool_call>{\"name\":\"time\",\"arguments\":{}}</tool_call>",
       two},
      {ToolFormat::kHermes,
       R"(<tool_call>{"name": "weather", "arguments": "{\"city\": 1}"}</tool_call>)",
       {"", "", {{"weather", "{\"city\": 1}"}}}},
      {ToolFormat::kHermes,
       "<tool_call>{\"name\": \"ping\"}</tool_call> done",
       {" done", "", {{"ping", ""}}}},
      {ToolFormat::kLlama3, "{\"name\": \"weather\", \"parameters\": " + a + "}", one},
      {ToolFormat::kLlama3, "<|python_tag|>{\"name\": \"weather\", \"parameters\": " + a + "}",
       one},
      {ToolFormat::kLlama3,
       "{\"name\": \"weather\", \"parameters\": " + a +
           "}; {\"name\": \"time\", \"parameters\": {}}",
       {"", "", {{"weather", a}, {"time", "{}"}}}},
      {ToolFormat::kLlama3, "<function=weather>" + a + "</function>", one},
      {ToolFormat::kLlama3,
       "<|python_tag|>brave_search.call(query=\"a, (b)\", n=3)",
       {"", "", {{"brave_search", "{\"query\":\"a, (b)\",\"n\":3}"}}}}};
  expect_parts(cases);
}

TEST(OutputParser, ToolCalls_WithMistralDeepSeekHarmonyOrFunctionary_AreParsed) {
  const std::string& a = kArguments;
  const Parts& one = kOneCall;
  const Parts& two = kTwoCalls;
  const std::vector<Case> cases = {
      {ToolFormat::kMistral,
       "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": " + a + ", \"id\": \"abcdefghi\"}]",
       one},
      {ToolFormat::kMistral,
       "Let me see.[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": " + a +
           "}, {\"name\": \"time\", \"arguments\": {}}]",
       two},
      {ToolFormat::kMistral, "[TOOL_CALLS]weather[ARGS]" + a, one},
      {ToolFormat::kMistral,
       "Let me see.[TOOL_CALLS]weather[CALL_ID]x1[ARGS]" + a + "[TOOL_CALLS]time{}", two},
      {ToolFormat::kDeepSeek,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n" + a +
           "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       one},
      {ToolFormat::kDeepSeek,
       "Let me see.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>" + a +
           "<｜tool▁call▁end｜><｜tool▁call▁begin｜>time<｜tool▁sep｜>{}<｜tool▁call▁end｜><"
           "｜tool▁calls▁end｜>",
       two},
      {ToolFormat::kHarmony,
       "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
       "to=functions.weather <|constrain|>json<|message|>" +
           a + "<|call|>",
       {"", "Hm.", {{"weather", a}}}},
      {ToolFormat::kHarmony,
       "<|channel|>analysis<|message|>A < b <| "
       "c<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>",
       {"Yes.", "A < b <| c", {}}},
      {ToolFormat::kHarmony,
       "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant "
       "to=functions.weather<|channel|>"
       "commentary<|message|>" +
           a + "<|call|><|start|>assistant<|channel|>commentary to=functions.time<|message|>{}",
       two},
      {ToolFormat::kFunctionary, "weather\n" + a, one},
      {ToolFormat::kFunctionary, "all\nLet me see.>>>weather\n" + a + ">>>time\n{}", two},
      {ToolFormat::kFunctionary, ">>>all\nHello", {"Hello", "", {}}}};
  expect_parts(cases);
}

TEST(OutputParser, ToolCalls_WithGemmaFormat_AreParsed) {
  const std::string open = "<|tool_call>call:", end = "}<tool_call|>", q = "<|\"|>";
  const std::string city = "city:" + q + "Köln" + q;
  const Parts one = {"", "", {{"weather", R"({"city":"Köln"})"}}};
  const std::vector<Case> cases = {
      {ToolFormat::kGemma, open + "weather{" + city + end, one},
      {ToolFormat::kGemma, open + "weather { city : " + q + "Köln" + q + "} <tool_call|>\n", one},
      {ToolFormat::kGemma, open + "weather{" + q + "city" + q + ":\"Köln\"" + end, one},
      {ToolFormat::kGemma, open + "weather{" + city + "<tool_call|>", one},
      {ToolFormat::kGemma,
       "<|channel>thought\nHm {a}.\n\nYes.\n<channel|>\nLook:" + open + "weather{" + city + end +
           open + "time{" + end,
       {"Look:", "Hm {a}.\n\nYes.", {{"weather", R"({"city":"Köln"})"}, {"time", "{}"}}}},
      {ToolFormat::kGemma,
       open + "f{a:1,b:-2.5e3,c:true,d:None,e:[1,{k:false}," + q + "x, \"y\" \\ z" + q +
           "],g:{h:{}},i:New York,j:" + q + "a:\n{b}<|" + q + end,
       {"",
        "",
        {{"f", R"({"a":1,"b":-2.5e3,"c":true,"d":null,"e":[1,{"k":false},"x, \"y\" \\ z"],)"
               R"("g":{"h":{}},"i":"New York","j":"a:\n{b}<|"})"}}}},
      {ToolFormat::kGemma,
       open + "f{a:\"x \\\"y\\\\\",b:1" + end,
       {"", "", {{"f", R"({"a":"x \"y\\","b":1})"}}}},
      {ToolFormat::kGemma, open + "f{a:" + q + "long", {"", "", {{"f", R"({"a":"long)"}}}},
      {ToolFormat::kGemma, "<|channel>thought\n<channel|>Yes.\n", {"Yes.\n", "", {}}},
      {ToolFormat::kGemma, "Say <|tool_call>now", {"Say <|tool_call>now", "", {}}},
      {ToolFormat::kGemma, open + "two words{}", {open + "two words{}", "", {}}},
      {ToolFormat::kGemma, "a <|tool_", {"a <|tool_", "", {}}}};
  expect_parts(cases);
}

TEST(OutputParser, GemmaChannels_WithoutTools_BecomeReasoning) {
  OutputOptions options;
  options.format = ToolFormat::kGemma;
  EXPECT_EQ(parse(options, "<|channel>thought\nHm.<channel|>Yes <|tool_call>call:f{}"),
            (Parts{"Yes <|tool_call>call:f{}", "Hm.", {}}));
  EXPECT_TRUE(has_channels(ToolFormat::kGemma));
  EXPECT_EQ(detect_tool_format("{{ '<|channel>thought' }} <|tool_call>call: <tool_call|>"),
            ToolFormat::kGemma);
}

TEST(OutputParser, ToolCalls_WithCohereOrGraniteFormat_AreParsed) {
  const std::string& a = kArguments;
  const std::string action =
      "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"weather\", "
      "\"parameters\": " +
      a + "}";
  const std::vector<Case> cases = {
      {ToolFormat::kCohere, action + "\n]<|END_ACTION|>", kOneCall},
      {ToolFormat::kCohere,
       "<|START_THINKING|>Hm. <|END_THINKING|>" + action +
           ",\n    {\"tool_call_id\": \"1\", \"tool_name\": \"time\", \"parameters\": {}}\n]"
           "<|END_ACTION|>",
       {"", "Hm. ", {{"weather", a}, {"time", "{}"}}}},
      {ToolFormat::kCohere, "<|START_RESPONSE|>Yes.<|END_RESPONSE|>", {"Yes.", "", {}}},
      {ToolFormat::kCohere, "Yes <|START_", {"Yes <|START_", "", {}}},
      {ToolFormat::kGranite, "<|tool_call|>[{\"name\": \"weather\", \"arguments\": " + a + "}]",
       kOneCall},
      {ToolFormat::kGranite,
       "Let me see.<|tool_call|> [{\"name\": \"weather\", \"arguments\": " + a +
           "}, {\"name\": \"time\", \"arguments\": {}}]",
       kTwoCalls}};
  expect_parts(cases);
}

const JsonArguments kTypes = {{"find", {"n", "deep", "list", "odd"}}};
const std::string kFound =
    R"({"text": "a \"b\"\nc \\ <x>", "n": 5, "deep": true, "list": [1, {"y": 2}]})";

Parts parse_typed(ToolFormat format, const std::string& text) {
  OutputOptions options;
  options.format = format;
  options.tools = true;
  options.json_arguments = kTypes;
  return parse(options, text);
}

// The tool decides the types of values: a string that looks like a number stays one.
TEST(OutputParser, TaggedArguments_WithDeclaredTypes_BecomeTypedJson) {
  const std::string text = "a \"b\"\nc \\ <x>", list = R"([1, {"y": 2}])";
  const Parts one = {"So.", "", {{"find", kFound}}};
  const auto glm = [&](const std::string& between) {
    const auto pair = [&](const std::string& key, const std::string& value) {
      return "<arg_key>" + key + "</arg_key>" + between + "<arg_value>" + value + "</arg_value>" +
             between;
    };
    return "<tool_call>find" + between + pair("text", text) + pair("n", "5") +
           pair("deep", "true") + pair("list", list) + "</tool_call>";
  };
  EXPECT_EQ(parse_typed(ToolFormat::kGlm, "So.\n" + glm("\n")), one);
  EXPECT_EQ(parse_typed(ToolFormat::kGlm, "So.\n" + glm("")), one);
  const auto lines = [&](const std::string& open, const std::string& close,
                         const std::string& line) {
    const auto pair = [&](const std::string& key, const std::string& value) {
      return "<parameter=" + key + ">" + line + value + line + "</parameter>\n";
    };
    return open + "<function=find>\n" + pair("text", text) + pair("n", "5") + pair("deep", "True") +
           pair("list", list) + "</function>\n" + close;
  };
  EXPECT_EQ(
      parse_typed(ToolFormat::kQwenCoder, "So.\n" + lines("<tool_call>\n", "</tool_call>", "\n")),
      one);
  EXPECT_EQ(parse_typed(ToolFormat::kQwenCoder, "So.\n" + lines("", "</tool_call>", "\n")), one);
  EXPECT_EQ(parse_typed(ToolFormat::kSeed,
                        "So.\n" + lines("<seed:tool_call>\n", "</seed:tool_call>", "")),
            one);
  const auto invoke = [&](const std::string& name) {
    return "<invoke name=\"" + name + "\">\n<parameter name=\"text\">5</parameter>\n" +
           "<parameter name=\"n\">5</parameter>\n</invoke>\n";
  };
  const std::string both = "<minimax:tool_call>\n" + invoke("find") + invoke("other");
  const Parts two = {
      "So.", "", {{"find", R"({"text": "5", "n": 5})"}, {"other", R"({"text": "5", "n": "5"})"}}};
  EXPECT_EQ(parse_typed(ToolFormat::kMinimax, "So.\n" + both + "</minimax:tool_call>"), two);
}

TEST(OutputParser, TaggedToolCalls_WhenEmptyRepeatedOrBroken_AreParsedOrLeftAsText) {
  const Parts two = {"", "", {{"a", "{}"}, {"b", "{}"}}};
  EXPECT_EQ(parse_typed(ToolFormat::kGlm, "<tool_call>a\n</tool_call>\n<tool_call>b</tool_call>"),
            two);
  EXPECT_EQ(parse_typed(ToolFormat::kQwenCoder,
                        "<tool_call>\n<function=a>\n</function>\n</tool_call>\n<tool_call>"
                        "<function=b></function></tool_call>"),
            two);
  EXPECT_EQ(parse_typed(ToolFormat::kQwenCoder,
                        "<function=a></function><function=b></function></tool_call>"),
            two);
  // Lines inside and around a value; what is no JSON is a string; an end that never comes.
  EXPECT_EQ(parse_typed(ToolFormat::kQwenCoder,
                        "<function=find><parameter=text>\n\nx\n\n</parameter><parameter=odd>a "
                        "b</parameter></function>"),
            (Parts{"", "", {{"find", R"({"text": "\nx\n", "odd": "a b"})"}}}));
  EXPECT_EQ(parse_typed(ToolFormat::kGlm, "<tool_call>find<arg_key>text</arg_key><arg_value>ab"),
            (Parts{"", "", {{"find", R"({"text": "ab)"}}}));
  EXPECT_EQ(parse_typed(ToolFormat::kGlm, "<tool_call>find<arg_key>te"),
            (Parts{"", "", {{"find", ""}}}));
  for (const char* text : {"<tool_call>two words\n", "<tool_call>{\"name\": \"x\"}</tool_call>",
                           "<tool_call>", "<tool_call>\n</tool_call> and", "a < b <tool_cal"}) {
    const Parts parts = parse_typed(ToolFormat::kGlm, text);
    EXPECT_TRUE(parts.calls.empty()) << text;
    EXPECT_EQ(parts.content, text);
  }
  EXPECT_EQ(parse_typed(ToolFormat::kQwenCoder, "x <function=a b> y").content,
            "x <function=a b> y");
  EXPECT_EQ(parse_typed(ToolFormat::kQwenCoder, "<tool_call> no").content, "<tool_call> no");
}

TEST(OutputParser, Text_WhenItOnlyResemblesAToolCall_StaysContent) {
  const std::vector<std::pair<ToolFormat, std::string>> cases = {
      {ToolFormat::kHermes, "<tool_call>not json</tool_call> and more"},
      {ToolFormat::kHermes, "<tool_call>{\"name\": 7}</tool_call>"},
      {ToolFormat::kHermes, "<tool_call>{\"arguments\": {}}</tool_call>"},
      {ToolFormat::kHermes, "<tool_call>{\"nam"},
      {ToolFormat::kHermes, "a < b, <tool, <tool_cal and  spaces  \n"},
      {ToolFormat::kLlama3, "{\"answer\": 42}"},
      {ToolFormat::kLlama3, "Hello {\"name\": \"x\", \"parameters\": {}}"},
      {ToolFormat::kLlama3, "  \n"},
      {ToolFormat::kMistral, "brackets [TOOL and [1, 2]"},
      {ToolFormat::kDeepSeek, "x <｜tool▁calls｜> y"},
      {ToolFormat::kNone, "<tool_call>{\"name\": \"x\"}</tool_call> [TOOL_CALLS]"}};
  for (const auto& [format, text] : cases) {
    OutputOptions options;
    options.format = format;
    options.tools = true;
    const Parts parts = parse(options, text);
    EXPECT_EQ(parts.content, text);
    EXPECT_TRUE(parts.calls.empty());
  }
}

/// A client that has seen every token must have all that they give, so the last token waits while
/// text is held back.
TEST(OutputParser, OutputParser_WhenOpeningMarkIsConsumed_IsPending) {
  const std::pair<ToolFormat, std::string> begun[] = {
      {ToolFormat::kGlm, "<tool_call>"},
      {ToolFormat::kQwenCoder, "<function="},
      {ToolFormat::kMinimax, "<minimax:tool_call>"},
      {ToolFormat::kGemma, "<|tool_call>"},
      {ToolFormat::kDeepSeek, "<｜tool▁call▁begin｜>"},
      {ToolFormat::kLlama3, "a<function="},
      {ToolFormat::kHermes, "<tool_call>"}};
  for (const auto& [format, text] : begun) {
    OutputParser parser({format, true, false, false, false, {}});
    Parts parts;
    add(parts, parser.feed(text));
    EXPECT_TRUE(parser.pending()) << text;
    add(parts, parser.finish());
    EXPECT_EQ(parts.content, text);
  }
}

TEST(OutputParser, ToolCallSyntax_WithoutTools_StaysContent) {
  for (const ToolFormat format : {ToolFormat::kHermes, ToolFormat::kLlama3, ToolFormat::kMistral,
                                  ToolFormat::kDeepSeek, ToolFormat::kFunctionary}) {
    OutputOptions options;
    options.format = format;
    const std::string text =
        "{\"name\": \"x\", \"parameters\": {}} <tool_call>{\"name\": \"x\"}</tool_call> "
        "[TOOL_CALLS]\n ";
    EXPECT_EQ(parse(options, text), (Parts{text, "", {}})) << tool_format_name(format);
  }
}

TEST(OutputParser, ToolCall_WhenTruncated_PreservesItsArguments) {
  OutputOptions options;
  options.format = ToolFormat::kHermes;
  options.tools = true;
  EXPECT_EQ(parse(options, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b"),
            (Parts{"", "", {{"f", "{\"a\": \"b"}}}));
  options.format = ToolFormat::kMistral;
  EXPECT_EQ(parse(options, "[TOOL_CALLS]f[ARGS]{\"a\": [1,"),
            (Parts{"", "", {{"f", "{\"a\": [1,"}}}));
}

TEST(OutputParser, Reasoning_WhenAtTheStart_IsSplitFromContent) {
  OutputOptions options;
  options.reasoning = true;
  const std::vector<std::pair<std::string, Parts>> cases = {
      {"<think>\nHm.\n\nYes.\n</think>\n\nIt is 4.", {"It is 4.", "Hm.\n\nYes.", {}}},
      {"\n<think></think>Four", {"Four", "", {}}},
      {"No thoughts <think>here</think>", {"No thoughts <think>here</think>", "", {}}},
      {"<think>never ends </thin", {"", "never ends </thin", {}}},
      {"<thin", {"<thin", "", {}}},
      {"", {"", "", {}}}};
  for (const auto& [text, parts] : cases) EXPECT_EQ(parse(options, text), parts) << text;
  options.starts_in_reasoning = true;
  EXPECT_EQ(parse(options, "Hm.</think>Four"), (Parts{"Four", "Hm.", {}}));
  options.starts_in_reasoning = false;
  options.format = ToolFormat::kHermes;
  options.tools = true;
  EXPECT_EQ(parse(options,
                  "<think>a</think>\n\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>"),
            (Parts{"", "a", {{"f", "{}"}}}));
}

// An answer that continues a text is text at once, and calls may follow it.
TEST(OutputParser, ContinuedAnswer_WhenItStartsInText_IsContentThenCalls) {
  OutputOptions options;
  options.tools = options.reasoning = options.starts_in_text = true;
  const std::string json = R"({"name": "f", "parameters": {}})";
  const std::tuple<ToolFormat, std::string, Parts> cases[] = {
      {ToolFormat::kNone, "<think>a</think>", {"<think>a</think>", "", {}}},
      {ToolFormat::kLlama3, json, {json, "", {}}},
      {ToolFormat::kLlama3, " so <|python_tag|>" + json, {" so", "", {{"f", "{}"}}}},
      {ToolFormat::kHermes,
       "  so <tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
       {"  so", "", {{"f", "{}"}}}},
      {ToolFormat::kFunctionary, "yes\nno>>>f\n{}", {"yes\nno", "", {{"f", "{}"}}}},
      {ToolFormat::kHarmony,
       " to=x<|end|><|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|call|>",
       {" to=x", "", {{"f", "{}"}}}}};
  for (const auto& [format, text, parts] : cases) {
    options.format = format;
    EXPECT_EQ(parse(options, text), parts) << tool_format_name(format);
  }
}

TEST(OutputParser, OutputKind_AfterWriteAndRead_IsEqual) {
  EXPECT_EQ(describe_output("plain", {"x", "x", "x"}), "none");
  const std::string opened = "user\n<think>\n", closed = "user\n<think>\n\n</think>\n\n";
  EXPECT_EQ(describe_output("<tool_call> </think>", {opened, opened, opened}), "hermes+think+open");
  EXPECT_EQ(describe_output("[TOOL_CALLS]", {"<think>", "<think>", "<think>"}), "mistral");
  // Qwen 3, DeepSeek 3.1, and a template that always opens the reasoning.
  const std::string qwen = describe_output("</think>", {"user\n", "user\n", closed});
  EXPECT_EQ(qwen, "none+think");
  const std::string deepseek = describe_output("</think>", {"</think>", "<think>", "</think>"});
  EXPECT_EQ(deepseek, "none+think+on");
  EXPECT_FALSE(read_output(deepseek).opens_reasoning);
  EXPECT_TRUE(read_output(deepseek).opens_when_on);
  EXPECT_FALSE(read_output(deepseek).opens_when_off);
  EXPECT_TRUE(read_output("none+think+open").opens_when_off);
  EXPECT_FALSE(read_output("none+think+open+never").opens_when_on);
  EXPECT_EQ(write_output(read_output("hermes+think+open")), "hermes+think+open");
  EXPECT_EQ(write_output(read_output("llama3+begun")), "llama3+begun");
  EXPECT_TRUE(read_output("llama3+begun").goes_on && !read_output("llama3+think+open").goes_on);
  const OutputKind kind = read_output("hermes+think+open");
  EXPECT_EQ(kind.format, ToolFormat::kHermes);
  EXPECT_TRUE(kind.reasoning && kind.opens_reasoning);
  EXPECT_FALSE(read_output("deepseek").reasoning);
  EXPECT_EQ(read_output("").format, ToolFormat::kNone);
  EXPECT_EQ(read_output("later+ways").format, ToolFormat::kNone);
}

TEST(OutputParser, ToolCalls_WhenManyInOneMessage_AreAllParsed) {
  std::string text;
  Parts expected;
  for (int i = 0; i < 40; ++i) {
    text += "<tool_call>{\"name\":\"f" + std::to_string(i) +
            "\",\"arguments\":{\"i\":" + std::to_string(i) + "}}</tool_call>\n";
    expected.calls.push_back({"f" + std::to_string(i), "{\"i\":" + std::to_string(i) + "}"});
  }
  OutputOptions options;
  options.format = ToolFormat::kHermes;
  options.tools = true;
  EXPECT_EQ(parse(options, text), expected);
}

/// Nothing is lost or repeated, whatever comes: text without any mark of the family is content.
TEST(OutputParser, RandomOutput_WhenCutAnywhere_ParsesAlikeAndStaysBounded) {
  const std::vector<std::string> words = {"<tool_call>",
                                          "</tool_call>",
                                          "{",
                                          "}",
                                          "\"name\"",
                                          ":",
                                          "\"f\"",
                                          ",",
                                          "\"arguments\"",
                                          "[",
                                          "]",
                                          "[TOOL_CALLS]",
                                          "[ARGS]",
                                          "<|channel|>",
                                          "final",
                                          "<|message|>",
                                          "<|end|>",
                                          "<think>",
                                          "</think>",
                                          ">>>",
                                          "\n",
                                          " ",
                                          "x",
                                          "\\",
                                          "\"",
                                          "<｜tool▁call▁begin｜>",
                                          "<｜tool▁sep｜>",
                                          "<function=",
                                          ">",
                                          "<|python_tag|>",
                                          "<arg_key>",
                                          "</arg_key>",
                                          "<arg_value>",
                                          "</arg_value>",
                                          "<parameter=",
                                          "</parameter>",
                                          "</function>",
                                          "<|START_ACTION|>",
                                          "<|tool_call|>",
                                          "<|tool_call>call:f{",
                                          "<|\"|>",
                                          "<tool_call|>",
                                          "<|channel>",
                                          "<channel|>",
                                          ";"};
  std::mt19937 random(5);
  for (int i = 0; i < 4000; ++i) {
    OutputOptions options;
    options.format = static_cast<ToolFormat>(random() % kToolFormats);
    options.json_arguments = {{"x", {"x", "f"}}};
    options.tools = random() % 4 != 0;
    options.reasoning = random() % 2 == 0;
    options.starts_in_reasoning = random() % 4 == 0;
    options.starts_in_text = random() % 4 == 0;
    std::string text;
    for (std::size_t n = random() % 25; n > 0; --n) text += words[random() % words.size()];
    const Parts parts = parse(options, text);
    std::size_t bytes = parts.content.size() + parts.reasoning.size();
    for (const Call& call : parts.calls) bytes += call.name.size() + call.arguments.size();
    const bool adds = options.format == ToolFormat::kGemma;  // quotes around a value without any
    const std::size_t most = adds ? 3 : has_plain_values(options.format) ? 2 : 1;
    EXPECT_LE(bytes, most * text.size()) << text;
  }
}

TEST(OutputParser, ToolFormat_WithPublishedTemplates_IsDetected) {
  const char* dir = std::getenv("HOLDFAST_CONFORMANCE_DIR");
  const std::string folder =
      std::string(dir != nullptr ? dir : HOLDFAST_SOURCE_DIR "/../shared/conformance") + "/chat/";
  const std::pair<const char*, ToolFormat> expected[] = {
      {"Qwen-Qwen3-0.6B", ToolFormat::kHermes},
      {"Qwen-Qwen2.5-7B-Instruct", ToolFormat::kHermes},
      {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", ToolFormat::kHermes},
      {"meta-llama-Llama-3.1-8B-Instruct", ToolFormat::kLlama3},
      {"mistralai-Mistral-Nemo-Instruct-2407", ToolFormat::kMistral},
      {"deepseek-ai-DeepSeek-V3.1", ToolFormat::kDeepSeek},
      {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", ToolFormat::kDeepSeek},
      {"openai-gpt-oss-120b", ToolFormat::kHarmony},
      {"GLM-4.6", ToolFormat::kGlm},
      {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", ToolFormat::kCohere},
      {"ibm-granite-granite-3.3-2B-Instruct", ToolFormat::kGranite},
      {"google-gemma-2-2b-it", ToolFormat::kNone},
      {"microsoft-Phi-3.5-mini-instruct", ToolFormat::kNone}};
  for (const auto& [name, format] : expected) {
    std::ifstream file(folder + name + ".jinja");
    if (!file) GTEST_SKIP() << folder << " is not here";
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_EQ(tool_format_name(detect_tool_format(text.str())), tool_format_name(format)) << name;
  }
  for (int i = 0; i < kToolFormats; ++i) {
    const auto format = static_cast<ToolFormat>(i);
    EXPECT_EQ(tool_format_from_name(tool_format_name(format)), format);
  }
  EXPECT_EQ(tool_format_from_name("xml"), ToolFormat::kNone);
}

}  // namespace
}  // namespace holdfast::chat::output_parser_test
