// Goal: a call as a model of each family writes it reaches a client of each dialect as a call,
// whole and streamed: the name, the arguments, and why the answer ended. Method: one model folder
// for each family, the demo model with a template that has the family's words; fake engines whose
// script emits a call as the family writes it.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::families_said_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A family of formats. `words`: contents of its template; `said`: the call of look with {"q":
/// "Köln", "n": 5}.
struct Family {
  const char* name;
  const char* words;
  const char* said;
};
const Family kFamilies[] = {
    {"hermes", "<tool_call>{...}</tool_call>",
     R"(<tool_call>{"name": "look", "arguments": {"q": "Köln", "n": 5}}</tool_call>)"},
    {"llama3", "<|python_tag|>", R"({"name": "look", "parameters": {"q": "Köln", "n": 5}})"},
    {"mistral", "[TOOL_CALLS]", R"([TOOL_CALLS]look[ARGS]{"q": "Köln", "n": 5})"},
    {"deepseek", "<｜tool▁call▁begin｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>"
     R"({"q": "Köln", "n": 5})"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {"harmony", "<|channel|>",
     "<|channel|>commentary to=functions.look <|constrain|>json<|message|>"
     R"({"q": "Köln", "n": 5}<|call|>)"},
    {"functionary", ">>>all", ">>>look\n{\"q\": \"Köln\", \"n\": 5}"},
    {"glm", "<tool_call>name<arg_key>k</arg_key>",
     "<tool_call>look\n<arg_key>q</arg_key>\n<arg_value>Köln</arg_value>\n"
     "<arg_key>n</arg_key>\n<arg_value>5</arg_value>\n</tool_call>"},
    {"qwen-coder", "<tool_call><function=name><parameter=k>",
     "<tool_call>\n<function=look>\n<parameter=q>\nKöln\n</parameter>\n<parameter=n>\n5\n"
     "</parameter>\n</function>\n</tool_call>"},
    {"seed", "<seed:tool_call>",
     "<seed:tool_call>\n<function=look>\n<parameter=q>Köln</parameter>\n<parameter=n>5"
     "</parameter>\n</function>\n</seed:tool_call>"},
    {"minimax", "<minimax:tool_call>",
     "<minimax:tool_call>\n<invoke name=\"look\">\n<parameter name=\"q\">Köln</parameter>\n"
     "<parameter name=\"n\">5</parameter>\n</invoke>\n</minimax:tool_call>"},
    {"cohere", "<|START_ACTION|>",
     R"(<|START_ACTION|>[{"tool_name": "look", "parameters": {"q": "Köln", "n": 5}}])"
     "<|END_ACTION|>"},
    {"granite", "<|tool_call|>",
     R"(<|tool_call|>[{"name": "look", "arguments": {"q": "Köln", "n": 5}}])"},
    {"gemma", "<|tool_call> <|channel>",
     R"(<|tool_call>call:look{q:<|"|>Köln<|"|>,n:5}<tool_call|>)"}};

const json kArguments = {{"q", "Köln"}, {"n", 5}};
const json kParameters = {
    {"type", "object"},
    {"properties", {{"q", {{"type", "string"}}}, {"n", {{"type", "integer"}}}}}};

/// The result that a client reads: one call, and how the answer ended.
struct Understood {
  std::string name;
  std::string arguments;
  std::string end;
};

std::vector<json> events_of(const std::string& body) {
  std::vector<json> events;
  std::istringstream lines(body);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("data: {")) events.push_back(json::parse(line.substr(6)));
  }
  return events;
}

Understood read_chat(const std::string& body, bool stream) {
  Understood u;
  for (const json& event : stream ? events_of(body) : std::vector{json::parse(body)}) {
    for (const json& choice : event.value("choices", json::array())) {
      const json& message = choice[stream ? "delta" : "message"];
      for (const json& call : message.value("tool_calls", json::array())) {
        u.name += call["function"].value("name", "");
        u.arguments += call["function"].value("arguments", "");
      }
      if (choice["finish_reason"].is_string()) u.end = choice["finish_reason"];
    }
  }
  return u;
}

Understood read_response(const std::string& body, bool stream) {
  json response;
  std::string streamed;
  if (stream) {
    for (const json& event : events_of(body)) {
      if (event["type"] == "response.function_call_arguments.delta") {
        streamed += event["delta"].get<std::string>();
      }
      if (event["type"] == "response.completed") response = event["response"];
    }
  } else {
    response = json::parse(body);
  }
  Understood u;
  u.end = response.value("status", "");
  for (const json& item : response.value("output", json::array())) {
    if (item["type"] != "function_call") continue;
    u.name += item["name"].get<std::string>();
    u.arguments += item["arguments"].get<std::string>();
  }
  if (stream) {
    EXPECT_EQ(streamed, u.arguments);
  }
  return u;
}

Understood read_message(const std::string& body, bool stream) {
  Understood u;
  if (!stream) {
    const json message = json::parse(body);
    u.end = message.value("stop_reason", "");
    for (const json& block : message["content"]) {
      if (block["type"] != "tool_use") continue;
      u.name += block["name"].get<std::string>();
      u.arguments += block["input"].dump();
    }
    return u;
  }
  for (const json& event : events_of(body)) {
    if (event["type"] == "content_block_start" && event["content_block"]["type"] == "tool_use") {
      u.name += event["content_block"]["name"].get<std::string>();
    }
    if (event["type"] == "content_block_delta" && event["delta"]["type"] == "input_json_delta") {
      u.arguments += event["delta"]["partial_json"].get<std::string>();
    }
    if (event["type"] == "message_delta") u.end = event["delta"]["stop_reason"];
  }
  return u;
}

struct Dialect {
  const char* path;
  const char* end;
  Understood (*read)(const std::string& body, bool stream);
};
constexpr Dialect kDialects[] = {{"/v1/chat/completions", "tool_calls", read_chat},
                                 {"/v1/responses", "completed", read_response},
                                 {"/v1/messages", "tool_use", read_message}};

json request_of(const Dialect& dialect, const std::string& model, bool stream) {
  json body = {{"model", model}, {"stream", stream}};
  const json turn = json::array({{{"role", "user"}, {"content", "Look!"}}});
  const std::string_view path = dialect.path;
  if (path == "/v1/responses") {
    body["input"] = turn;
    body["tools"] = {{{"type", "function"}, {"name", "look"}, {"parameters", kParameters}}};
  } else if (path == "/v1/messages") {
    body["max_tokens"] = 300;
    body["messages"] = turn;
    body["tools"] = {{{"name", "look"}, {"input_schema", kParameters}}};
  } else {
    body["messages"] = turn;
    const json function = {{"name", "look"}, {"parameters", kParameters}};
    body["tools"] = {{{"type", "function"}, {"function", function}}};
  }
  return body;
}

TEST(ModelFamilyToolCalls, ToolCall_OfEachModelFamily_ReachesEveryApiDialect) {
  const TempDir dir;
  const std::string first = dir.path() + "/first";
  ASSERT_EQ(run_program({"holdfast", "convert", demo_model(), first}).code, 0);
  std::vector<std::string> flags = {"--engine", "fake"};
  json script = json::array();
  for (const Family& family : kFamilies) {
    const std::string folder = dir.path() + "/" + family.name;
    fs::copy(first, folder);
    dir.write(std::string(family.name) + "/chat_template.jinja",
              std::string("family=") + family.name +
                  "\n{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
                  "{% if tools %}{{ tools | tojson }} write " +
                  family.words + "{% endif %}");
    flags.insert(flags.end(), {"--model", std::string(family.name) + "=" + folder});
    script.push_back({{"when", std::string("family=") + family.name + "\n"}, {"say", family.said}});
  }
  flags.insert(flags.end(), {"--engine-options", json{{"script", script}}.dump()});
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start(flags)) << server.errors();
  for (const Family& family : kFamilies) {
    for (const Dialect& dialect : kDialects) {
      for (const bool stream : {false, true}) {
        SCOPED_TRACE(std::string(family.name) + " " + dialect.path + (stream ? ", streamed" : ""));
        const json request = request_of(dialect, family.name, stream);
        const HttpAnswer answer =
            http_exchange(server.url(), http_post_text(dialect.path, request.dump()));
        ASSERT_EQ(answer.status, 200) << answer.body << server.errors();
        const Understood understood = dialect.read(answer.body, stream);
        EXPECT_EQ(understood.name, "look") << answer.body;
        EXPECT_EQ(json::parse(understood.arguments, nullptr, false), kArguments) << answer.body;
        EXPECT_EQ(understood.end, dialect.end);
      }
    }
  }
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

}  // namespace
}  // namespace holdfast::process::families_said_test
