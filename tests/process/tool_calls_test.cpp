// Goal: a model whose template knows tools and reasoning answers in OpenAI's fields, whole or
// streamed, the same through kills of worker and daemon in the middle of a call. Method: the demo
// model as a folder with another chat template; a grammar makes it write a thought and a call.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::tool_calls_test {
namespace {

using nlohmann::json;

/// A tool-call format: how a model is told to write a call, and how it does after a thought and a
/// sentence.
struct Way {
  const char* format;
  const char* words;
  const char* call;
};
constexpr Way kWays[] = {
    {"hermes", "<tool_call>{...}</tool_call>",
     R"(<tool_call>\{"name": "look", "arguments": )"
     R"(\{"q": "[a-z]{40,60}", "n": [1-9][0-9]{2}\}\}</tool_call>)"},
    {"glm", "<tool_call>name<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>",
     R"(<tool_call>look\n<arg_key>q</arg_key>\n<arg_value>[a-z]{40,60}</arg_value>\n)"
     R"(<arg_key>n</arg_key>\n<arg_value>[1-9][0-9]{2}</arg_value>\n</tool_call>)"}};

json request(const Way& way, bool stream) {
  const json look = {
      {"name", "look"},
      {"parameters",
       {{"type", "object"},
        {"properties", {{"q", {{"type", "string"}}}, {"n", {{"type", "integer"}}}}}}}};
  const std::string before = R"(<think>[a-z ]{20,40}[a-z]</think>\n[A-Z][a-z ]{10,20}[a-z]\.\n)";
  return {{"model", "m"},
          {"messages", {{{"role", "user"}, {"content", "Look!"}}}},
          {"tools", {{{"type", "function"}, {"function", look}}}},
          {"guided_regex", before + way.call},
          {"max_tokens", 300},
          {"temperature", 0.9},
          {"seed", 5},
          {"stream", stream}};
}

/// The deltas of a stream put together as the message of a whole answer.
json message_of(const std::string& body, std::string* finish) {
  json message = {{"role", "assistant"}, {"content", ""}};
  std::size_t at = 0;
  while ((at = body.find("data: {", at)) != std::string::npos) {
    const std::size_t end = body.find('\n', at);
    const json data = json::parse(body.substr(at + 6, end - at - 6), nullptr, false);
    at = end;
    if (!data.is_object() || !data.contains("choices") || data["choices"].empty()) continue;
    const json& choice = data["choices"][0];
    const json& delta = choice["delta"];
    for (const char* name : {"content", "reasoning_content"}) {
      if (delta.contains(name)) {
        message[name] = message.value(name, "") + delta[name].get<std::string>();
      }
    }
    for (json call : delta.value("tool_calls", json::array())) {
      call.erase("index");
      if (call.contains("id")) {
        message["tool_calls"].push_back(call);
      } else {
        json& arguments = message["tool_calls"].back()["function"]["arguments"];
        arguments = arguments.get<std::string>() + call["function"]["arguments"].get<std::string>();
      }
    }
    if (choice["finish_reason"].is_string()) *finish = choice["finish_reason"];
  }
  return message;
}

class ToolCallsOf : public testing::TestWithParam<Way> {};

TEST_P(ToolCallsOf, ToolCall_WhenProcessesAreKilled_ReachesTheClient) {
  const Way& way = GetParam();
  const TempDir dir;
  const std::string folder = dir.path() + "/model";
  const Ended made = run_program({"holdfast", "convert", demo_model(), folder});
  ASSERT_EQ(made.code, 0) << made.err;
  dir.write("model/chat_template.jinja",
            "{%- for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
            "{%- if tools %}{{ tools | tojson }} write " +
                std::string(way.words) + "{% endif %}{%- if false %}</think>{% endif %}");
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--model", "m=" + folder})) << server.errors();
  const json document = json::parse(server.cli({"--json", "models", "show", "m"}).out);
  EXPECT_EQ(document["output"], std::string(way.format) + "+think");

  const std::string path = "/v1/chat/completions";
  const json whole = json::parse(
      http_exchange(server.url(), http_post_text(path, request(way, false).dump())).body, nullptr,
      false);
  ASSERT_TRUE(whole.contains("choices")) << whole.dump();
  const json& message = whole["choices"][0]["message"];
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "tool_calls") << whole.dump();
  EXPECT_GE(message["reasoning_content"].get<std::string>().size(), 20u);
  EXPECT_EQ(message["content"].get<std::string>().back(), '.');
  ASSERT_EQ(message["tool_calls"].size(), 1u);
  const json& function = message["tool_calls"][0]["function"];
  EXPECT_EQ(function["name"], "look");
  const json arguments = json::parse(function["arguments"].get<std::string>());
  EXPECT_GE(arguments["q"].get<std::string>().size(), 40u);
  EXPECT_TRUE(arguments["n"].is_number_integer()) << arguments;

  for (const char* victim : {"", "worker-0", "daemon"}) {
    SCOPED_TRACE(victim);
    std::string body;
    bool killed = *victim == '\0';
    const HttpAnswer answer =
        http_exchange(server.url(), http_post_text(path, request(way, true).dump()),
                      [&](const std::string& more) {
                        body += more;
                        if (!killed && body.find("\"arguments\":\"{") != std::string::npos) {
                          killed = server.kill_child(victim);
                        }
                      });
    EXPECT_TRUE(killed);
    EXPECT_EQ(answer.status, 200) << server.errors();
    std::string finish;
    json streamed = message_of(body, &finish);
    // The id of a call is derived from the request's.
    ASSERT_EQ(streamed["tool_calls"].size(), 1u) << body;
    streamed["tool_calls"][0]["id"] = message["tool_calls"][0]["id"];
    EXPECT_EQ(streamed, message);
    EXPECT_EQ(finish, "tool_calls");
  }
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

INSTANTIATE_TEST_SUITE_P(Ways, ToolCallsOf, testing::ValuesIn(kWays),
                         [](const auto& info) { return std::string(info.param.format); });

constexpr const char* kPlainTemplate =
    "{%- for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{%- if tools %}{{ tools | tojson }} write <tool_call>{...}</tool_call>{% endif %}";

TEST(ToolCalls, ToolCall_WithAForcedToolChoice_IsMade) {
  const TempDir dir;
  const std::string folder = dir.path() + "/model";
  ASSERT_EQ(run_program({"holdfast", "convert", demo_model(), folder}).code, 0);
  dir.write("model/chat_template.jinja", kPlainTemplate);
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--model", "m=" + folder, "--model", "raw=" + demo_model()}))
      << server.errors();
  const json look = json::parse(
      R"({"type":"function","function":{"name":"look","parameters":{"type":"object","properties":
          {"q":{"type":"string","maxLength":20},"n":{"type":"integer","minimum":1,"maximum":9}},
          "required":["q","n"],"additionalProperties":false}}})");
  const json go = {{"type", "function"}, {"function", {{"name", "go"}}}};
  int calls = 0;
  for (const char* model : {"m", "raw"}) {
    for (int seed = 0; seed < 4; ++seed) {
      json body = {{"model", model},
                   {"messages", {{{"role", "user"}, {"content", "Look!"}}}},
                   {"tools", {look, go}},
                   {"tool_choice", {{"type", "function"}, {"function", {{"name", "look"}}}}},
                   {"max_tokens", 200},
                   {"seed", seed}};
      const HttpAnswer answer =
          http_exchange(server.url(), http_post_text("/v1/chat/completions", body.dump()));
      const json document = json::parse(answer.body, nullptr, false);
      if (answer.status == 400) {  // the demo model's own file has no chat template
        EXPECT_EQ(document["error"]["code"], "no_chat_template") << answer.body;
        continue;
      }
      ASSERT_TRUE(document.contains("choices")) << answer.body;
      const json& choice = document["choices"][0];
      ASSERT_EQ(choice["finish_reason"], "tool_calls") << answer.body;
      ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u) << answer.body;
      const json& function = choice["message"]["tool_calls"][0]["function"];
      EXPECT_EQ(function["name"], "look");
      const json arguments = json::parse(function["arguments"].get<std::string>());
      EXPECT_LE(arguments["q"].get<std::string>().size(), 80u);
      EXPECT_GE(arguments["n"].get<int>(), 1);
      EXPECT_TRUE(choice["message"]["content"].is_null());
      ++calls;
    }
  }
  EXPECT_GE(calls, 4);
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

/// A function with long descriptions.
json wordy_tool(int number) {
  json properties = json::object();
  for (int i = 0; i < 10; ++i) {
    properties["p" + std::to_string(i)] = {{"type", "boolean"},
                                           {"description", std::string(240, 'd')}};
  }
  return {{"type", "function"},
          {"function",
           {{"name", "tool" + std::to_string(number)},
            {"parameters",
             {{"type", "object"},
              {"properties", properties},
              {"required", {"p0"}},
              {"additionalProperties", false}}}}}};
}

TEST(ToolCalls, ToolCall_WhenOneOf128ToolsIsRequired_IsMade) {
  const TempDir dir;
  const std::string folder = dir.path() + "/model";
  ASSERT_EQ(run_program({"holdfast", "convert", demo_model(), folder}).code, 0);
  // Their texts would not fit the demo model's context.
  dir.write("model/chat_template.jinja",
            "{%- for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
            "{%- if tools %}{{ tools | length }} tools: <tool_call>{...}</tool_call>{% endif %}");
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--model", "m=" + folder})) << server.errors();
  json body = {{"model", "m"},
               {"messages", {{{"role", "user"}, {"content", "Call one!"}}}},
               {"tools", json::array()},
               {"parallel_tool_calls", false},
               {"tool_choice", "required"},
               {"max_tokens", 300},
               {"seed", 1}};
  for (int i = 0; i < 128; ++i) body["tools"].push_back(wordy_tool(i));
  const std::string text = body.dump();
  ASSERT_GT(text.size(), 330'000U);
  const HttpAnswer answer =
      http_exchange(server.url(), http_post_text("/v1/chat/completions", text));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json choice = json::parse(answer.body)["choices"][0];
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u) << answer.body;
  const json& function = choice["message"]["tool_calls"][0]["function"];
  EXPECT_TRUE(function["name"].get<std::string>().starts_with("tool")) << answer.body;
  EXPECT_TRUE(json::parse(function["arguments"].get<std::string>())["p0"].is_boolean());
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

}  // namespace
}  // namespace holdfast::process::tool_calls_test
