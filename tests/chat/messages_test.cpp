// Goal: messages as clients send them become the one form that templates are written for, and
// nothing of them is lost; what cannot be understood is named by its place. Method: a table of what
// programs send and its result; each result is normalized again, which must change nothing.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"
#include "shared/chat/messages.h"

namespace holdfast::chat::messages_test {
namespace {

using json = nlohmann::ordered_json;

Result<json> open(std::string_view text) {
  return try_parse_json<json>(text, kBodyLimits);
}

json normalized(const std::string& text) {
  json messages = json::parse(text);
  const auto fault = normalize_messages(messages, open);
  EXPECT_FALSE(fault) << text << ": " << fault->where << " " << fault->what;
  json again = messages;
  EXPECT_FALSE(normalize_messages(again, open));
  EXPECT_EQ(again, messages) << "twice is as once: " << text;
  return messages;
}

std::string fault_of(const std::string& text) {
  json messages = json::parse(text);
  const auto fault = normalize_messages(messages, open);
  return fault ? fault->where + ": " + fault->what : "none";
}

struct Case {
  const char* sent;
  const char* made;
};

TEST(Messages, MessageContent_WithAnyClientForm_BecomesPlainText) {
  const Case cases[] = {
      {R"([{"role":"user","content":"a"}])", R"([{"role":"user","content":"a"}])"},
      {R"([{"role":"user"}])", R"([{"role":"user","content":""}])"},
      {R"([{"role":"user","content":null}])", R"([{"role":"user","content":""}])"},
      {R"([{"role":"user","content":[]}])", R"([{"role":"user","content":""}])"},
      {R"([{"role":"user","content":["a",{"type":"text","text":"b"},{"text":"c"},
            {"type":"input_text","text":"d"},{"type":"text","text":null}]}])",
       R"([{"role":"user","content":"a\nb\nc\nd"}])"},
      {R"([{"role":"user","content":{"type":"text","text":"a"}}])",
       R"([{"role":"user","content":"a"}])"},
      {R"([{"role":"assistant","content":[{"type":"refusal","refusal":"No."}]}])",
       R"([{"role":"assistant","content":"No."}])"},
      {R"([{"role":"assistant","content":null,"refusal":"No."}])",
       R"([{"role":"assistant","content":"No."}])"},
      {R"([{"role":"assistant","content":"b","refusal":null,"annotations":null,"audio":null,
            "function_call":null,"tool_calls":null}])",
       R"([{"role":"assistant","content":"b"}])"},
      {R"([{"role":"assistant","content":"b","tool_calls":[]}])",
       R"([{"role":"assistant","content":"b"}])"},
      {R"([{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},
            {"type":"text","text":"b"}]}])",
       R"([{"role":"assistant","content":"b","reasoning_content":"hm"}])"},
      {R"([{"role":"assistant","content":"b","reasoning":"hm"}])",
       R"([{"role":"assistant","content":"b","reasoning":"hm","reasoning_content":"hm"}])"},
      {R"([{"role":"user","content":"a","name":null,"cache_control":{"type":"ephemeral"}}])",
       R"([{"role":"user","content":"a","cache_control":{"type":"ephemeral"}}])"},
  };
  for (const Case& c : cases) EXPECT_EQ(normalized(c.sent), json::parse(c.made)) << c.sent;
}

TEST(Messages, ToolCallArguments_WithJsonText_BecomeObjects) {
  const Case cases[] = {{"null", "{}"},
                        {R"("")", "{}"},
                        {R"(" \n")", "{}"},
                        {R"("{}")", "{}"},
                        {R"("{\"a\": [1]}")", R"({"a":[1]})"},
                        {R"({"a":1})", R"({"a":1})"},
                        {R"("{\"a\": \"U")", R"("{\"a\": \"U")"},
                        {R"("3")", R"("3")"},
                        {R"("\"UTC\"")", R"("\"UTC\"")"},
                        {R"(["UTC"])", R"(["UTC"])"}};
  for (const Case& c : cases) {
    const std::string call =
        std::string(R"([{"role":"assistant","content":null,"tool_calls":[{"id":null,"function":)") +
        R"({"name":"f","arguments":)" + c.sent + "}}]}]";
    const json made = normalized(call);
    EXPECT_EQ(made[0]["content"], "");
    const json& one = made[0]["tool_calls"][0];
    EXPECT_EQ(one["function"]["arguments"], json::parse(c.made)) << c.sent;
    EXPECT_EQ(one["type"], "function");
    EXPECT_FALSE(one.contains("id"));
  }
}

TEST(Messages, LegacyFunctionCall_WhenGiven_BecomesAToolCall) {
  const json made = normalized(R"([
      {"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"a\":1}"}},
      {"role":"function","name":"f","content":"ok"}])");
  EXPECT_EQ(made, json::parse(R"([
      {"role":"assistant","content":"","tool_calls":[
        {"id":"call_0","type":"function","function":{"name":"f","arguments":{"a":1}}}]},
      {"role":"tool","name":"f","content":"ok","tool_call_id":"call_0"}])"));
}

TEST(Messages, CustomToolCall_WithTextInput_BecomesAOneArgumentFunction) {
  const json made = normalized(R"([{"role":"assistant","tool_calls":[
      {"id":"c","type":"custom","custom":{"name":"patch","input":"*** Begin"}}]}])");
  EXPECT_EQ(made[0]["tool_calls"], json::parse(R"([{"id":"c","type":"function","function":
      {"name":"patch","arguments":{"input":"*** Begin"}}}])"));
}

TEST(Messages, ToolResults_WithoutNameOrId_AreMatchedToTheirCalls) {
  const json made = normalized(R"([
      {"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}},
                                        {"id":"b","function":{"name":"g"}},
                                        {"id":"c","function":{"name":"f"}}]},
      {"role":"tool","tool_call_id":"b","content":"1"},
      {"role":"tool","name":"f","content":"2"},
      {"role":"tool","content":"3"},
      {"role":"tool","tool_call_id":"x","content":"4"},
      {"role":"tool","content":"5"}])");
  const auto is = [&](std::size_t i, const char* id, const char* name) {
    EXPECT_EQ(made[i].value("tool_call_id", "none"), id) << i;
    EXPECT_EQ(made[i].value("name", "none"), name) << i;
  };
  is(1, "b", "g");
  is(2, "a", "f");
  is(3, "c", "f");
  is(4, "x", "none");
  is(5, "none", "none");
}

TEST(Messages, Messages_WhenInvalid_NameTheFaultyPath) {
  const Case cases[] = {
      {"{}", "messages: is required"},
      {"[]", "messages: is required"},
      {R"(["a"])", "messages[0]: must be an object"},
      {R"([{"content":"a"}])", "messages[0].role: is required"},
      {R"([{"role":"","content":"a"}])", "messages[0].role: is required"},
      {R"([{"role":"a|>b","content":"a"}])", "messages[0].role: must be a name"},
      {R"([{"role":"user","content":5}])", "messages[0].content: must be a string or"},
      {R"([{"role":"user","content":"a"},{"role":"user","content":["b",{"type":"image_url"}]}])",
       "messages[1].content[1].type: \"image_url\" is not read"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text: is"},
      {R"([{"role":"user","content":[{"type":5,"text":"a"}]}])", "messages[0].content[0].type:"},
      {R"([{"role":"user","content":[7]}])", "messages[0].content[0]: must be an object or a text"},
      {R"([{"role":"assistant","tool_calls":{}}])", "messages[0].tool_calls: must be an array"},
      {R"([{"role":"assistant","tool_calls":["f"]}])", "messages[0].tool_calls[0]: must be"},
      {R"([{"role":"assistant","tool_calls":[{"id":1,"function":{"name":"f"}}]}])",
       "messages[0].tool_calls[0].id: must be a string"},
      {R"([{"role":"assistant","tool_calls":[{"id":"a"}]}])",
       "messages[0].tool_calls[0].function: is required"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"name":""}}]}])",
       "messages[0].tool_calls[0].function.name: is required"},
      {R"([{"role":"assistant","function_call":"f"}])", "messages[0].function_call: is required"},
  };
  for (const Case& c : cases) {
    EXPECT_TRUE(fault_of(c.sent).starts_with(c.made)) << c.sent << "\n" << fault_of(c.sent);
  }
}

TEST(Messages, ToolCallArguments_WhenOverTheLimit_AreRefused) {
  json messages = json::parse(R"([{"role":"assistant","tool_calls":[{"function":
      {"name":"f","arguments":"{}"}}]}])");
  const auto fault = normalize_messages(messages, [](std::string_view) -> Result<json> {
    return Error{Errc::kInvalidRequest, "is too much"};
  });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->where, "messages[0].tool_calls[0].function.arguments");
  EXPECT_EQ(fault->what, "is too much");
}

TEST(Messages, ToolResults_WithManyCalls_AreMatchedInLinearTime) {
  json calls = json::array();
  json messages = json::array();
  constexpr int kCalls = 50'000;
  for (int i = 0; i < kCalls; ++i) {
    calls.push_back({{"id", "c" + std::to_string(i)}, {"function", {{"name", "f"}}}});
  }
  messages.push_back({{"role", "assistant"}, {"tool_calls", std::move(calls)}});
  for (int i = kCalls; i-- > 0;) {
    messages.push_back({{"role", "tool"}, {"tool_call_id", "c" + std::to_string(i)}});
  }
  ASSERT_FALSE(normalize_messages(messages, open));
  EXPECT_EQ(messages.back()["name"], "f");
}

}  // namespace
}  // namespace holdfast::chat::messages_test
