// Goal: /v1/messages is Anthropic's: what a client's blocks become in the prompt, documents, typed
// events that can be resumed anywhere, stop reasons, calls, errors. Method: bodies into SUBMITs; a
// gateway over a fake daemon with scripted tokens.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/gateway/anthropic/message_body.h"
#include "control/gateway/http/json_body.h"
#include "tests/http/http_peer.h"

namespace holdfast::test::messages_test {
namespace {

using nlohmann::json;

constexpr const char* kPath = "/v1/messages";
const std::string kBody =
    R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}])";

class Messages : public testing::Test {
 protected:
  void model(const std::string& output) {
    wire::ModelInfo info;
    info.name = "m";
    info.state = "ready";
    info.output = output;
    gateway.client.model_list = {info};
  }
  json ask(const std::string& more = "") {
    return json::parse(gateway.ask(post(kPath, kBody + more + "}")).body);
  }
  Gateway gateway;
};

std::vector<json> data_of(const std::string& body) {
  std::vector<json> out;
  for (const SseEvent& event : parse_events(body)) {
    if (!event.data.empty()) out.push_back(json::parse(event.data));
  }
  return out;
}

TEST_F(Messages, Message_WhenNotStreamed_IsOneAnthropicDocument) {
  model("");
  gateway.client.script.token_bytes = {{"Hel", "lo", "!"}};
  const json body = ask();
  EXPECT_EQ(body["type"], "message");
  EXPECT_EQ(body["role"], "assistant");
  EXPECT_EQ(body["model"], "m");
  EXPECT_EQ(body["content"], json::parse(R"([{"type":"text","text":"Hello!"}])"));
  EXPECT_EQ(body["stop_reason"], "max_tokens");
  EXPECT_EQ(body["usage"]["output_tokens"], 3);
  EXPECT_EQ(gateway.client.last_submit().max_tokens, 9);
  gateway.client.script.finish = wire::FinishReason::kStop;
  EXPECT_EQ(ask()["stop_reason"], "end_turn");
  const json stopped = ask(R"(,"stop_sequences":["x","lo!"])");
  EXPECT_EQ(stopped["content"][0]["text"], "Hel");
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "lo!");
}

TEST_F(Messages, MessageStream_WhenResumedAtAnyEvent_SendsTheRestAsTypedEvents) {
  model("hermes+think");
  gateway.client.script.finish = wire::FinishReason::kStop;
  gateway.client.script.token_bytes = {{"<think>", "hm", "m", "</think>", "\n", "Look", ":",
                                        "\n<tool_", "call>", "{\"name\": \"f\", ",
                                        "\"arguments\": {\"x\"", ": 1}}", "</tool_call>"}};
  const std::string body = kBody + R"(,"tools":[{"name":"f","input_schema":{}}])";
  const json whole = json::parse(gateway.ask(post(kPath, body + "}")).body);
  ASSERT_EQ(whole["content"].size(), 3u) << whole.dump();
  EXPECT_EQ(whole["content"][0]["thinking"], "hmm");
  EXPECT_EQ(whole["content"][2]["type"], "tool_use");
  EXPECT_EQ(whole["content"][2]["input"], json::parse(R"({"x":1})"));
  EXPECT_EQ(whole["stop_reason"], "tool_use");

  const Reply reply = gateway.ask(post(kPath, body + R"(,"stream":true})"));
  const std::vector<json> events = data_of(reply.body);
  ASSERT_GT(events.size(), 8u) << reply.body;
  EXPECT_EQ(events.front()["type"], "message_start");
  EXPECT_EQ(events.back()["type"], "message_stop");
  EXPECT_EQ(events[events.size() - 2]["delta"]["stop_reason"], "tool_use");
  std::string thought, text, input;
  int open = -1, blocks = 0;
  for (const json& event : events) {
    const std::string type = event["type"];
    if (type == "content_block_start") {
      EXPECT_EQ(open, -1);
      open = event["index"];
      EXPECT_EQ(open, blocks++);
    } else if (type == "content_block_stop") {
      EXPECT_EQ(event["index"], open);
      open = -1;
    } else if (type == "content_block_delta") {
      EXPECT_EQ(event["index"], open);
      thought += event["delta"].value("thinking", "");
      text += event["delta"].value("text", "");
      input += event["delta"].value("partial_json", "");
    }
  }
  EXPECT_EQ(blocks, 3);
  EXPECT_EQ(thought, "hmm");
  EXPECT_EQ(text, whole["content"][1]["text"]);
  EXPECT_EQ(json::parse(input), whole["content"][2]["input"]);

  const std::vector<SseEvent> raw = parse_events(reply.body);
  for (std::size_t i = 0; i + 1 < raw.size(); ++i) {
    if (raw[i].id.empty()) continue;
    const Reply rest = gateway.ask(
        post(kPath, body + R"(,"stream":true})", "Last-Event-ID: " + raw[i].id + "\r\n"));
    const std::vector<json> again = data_of(rest.body);
    ASSERT_EQ(again.size(), raw.size() - i - 1) << raw[i].id;
    EXPECT_EQ(again.back(), events.back());
    EXPECT_EQ(again.front(), json::parse(raw[i + 1].data));
  }
}

TEST_F(Messages, MessageRequest_WhenInvalid_NamesTheParameter) {
  model("");
  const auto param = [&](const std::string& body) {
    const Reply reply = gateway.ask(post(kPath, body));
    EXPECT_EQ(reply.status, 400) << body;
    return json::parse(reply.body)["error"].value("param", std::string());
  };
  EXPECT_EQ(param(R"({"model":"m","messages":[{"role":"user","content":"a"}]})"), "max_tokens");
  EXPECT_EQ(param(R"({"model":"m","max_tokens":1})"), "messages");
  EXPECT_EQ(param(kBody + R"(,"system":7})"), "system");
  EXPECT_EQ(param(kBody + R"(,"tool_choice":{"type":"x"}})"), "tool_choice");
  EXPECT_EQ(param(R"({"model":"m","max_tokens":1,"messages":[{"role":"robot","content":"a"}]})"),
            "messages[0].role");
  EXPECT_EQ(param(R"({"model":"m","max_tokens":1,"messages":[{"role":"user","content":
                      [{"type":"image","source":{}}]}]})"),
            "messages[0].content[0].type");
}

TEST(MessageBody, ContentBlocks_WithToolsAndThinking_BecomeChatMessages) {
  nlohmann::ordered_json body;
  FieldError error;
  gateway::Generation out;
  ASSERT_TRUE(gateway::parse_json_object(
      R"({"model":"m","max_tokens":5,"top_k":3,"metadata":{"user_id":"u"},
          "system":[{"type":"text","text":"Be"},{"type":"text","text":"brief."}],
          "messages":[{"role":"user","content":[{"type":"text","text":"Go"}]},
            {"role":"assistant","content":[{"type":"thinking","thinking":"t"},
              {"type":"text","text":"I look."},
              {"type":"tool_use","id":"toolu_1","name":"f","input":{"x":1}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1",
              "content":[{"type":"text","text":"a wall"}]},{"type":"text","text":"So?"}]}],
          "tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],
          "tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}})",
      &body, &error));
  ASSERT_TRUE(gateway::parse_message(body, {}, &out, &error)) << error.message;
  const json chat = json::parse(*out.submit.prompts.at(0).messages_json);
  EXPECT_EQ(chat["messages"], json::parse(R"([{"role":"system","content":"Be\nbrief."},
      {"role":"user","content":"Go"},
      {"role":"assistant","content":"I look.","reasoning_content":"t","tool_calls":[
        {"id":"toolu_1","type":"function","function":{"name":"f","arguments":{"x":1}}}]},
      {"role":"tool","tool_call_id":"toolu_1","content":"a wall","name":"f"},
      {"role":"user","content":"So?"}])"))
      << chat.dump();
  EXPECT_EQ(chat["tools"][0]["function"]["parameters"]["type"], "object");
  EXPECT_EQ(out.submit.sampling.top_k, 3);
  EXPECT_EQ(out.shape.user, "u");
  EXPECT_TRUE(out.one_call);
  EXPECT_FALSE(out.must_call.empty());
  EXPECT_TRUE(out.ignored.empty());
}

TEST(MessageBody, AssistantPrefill_WhenLastMessageIsAssistant_BeginsTheAnswer) {
  const auto read = [](const std::string& last, gateway::Generation* out) {
    nlohmann::ordered_json body;
    FieldError error;
    const bool ok =
        gateway::parse_json_object(
            R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":"a"},)" + last +
                "]}",
            &body, &error) &&
        gateway::parse_message(body, {}, out, &error);
    return ok ? "" : error.param + ": " + error.message;
  };
  using chat::Prefill;
  const std::pair<const char*, std::optional<Prefill>> cases[] = {
      {R"({"role":"assistant","content":"b"})", Prefill::kText},
      {R"({"role":"assistant","content":[{"type":"thinking","thinking":"t"},
                                         {"type":"text","text":"b"}]})",
       Prefill::kText},
      {R"({"role":"assistant","content":[{"type":"thinking","thinking":"t "}]})",
       Prefill::kThinking},
      {R"({"role":"assistant","content":""})", std::nullopt},
      {R"({"role":"assistant","content":[]})", std::nullopt},
      {R"({"role":"assistant","content":[{"type":"tool_use","name":"f","input":{}}]})",
       std::nullopt}};
  for (const auto& [last, prefill] : cases) {
    gateway::Generation out;
    EXPECT_EQ(read(last, &out), "") << last;
    EXPECT_EQ(out.prefill, prefill) << last;
  }
  gateway::Generation out;
  const std::string refused = read(R"({"role":"assistant","content":"b "})", &out);
  EXPECT_NE(refused.find("messages[1].content: "), std::string::npos) << refused;
  EXPECT_NE(refused.find("final assistant content cannot end with trailing whitespace"),
            std::string::npos)
      << refused;
}

TEST_F(Messages, Error_WhenContextIsExceeded_HasAnthropicForm) {
  model("");
  gateway.client.failure = client::Failure{};
  gateway.client.failure->code = Errc::kContextExceeded;
  gateway.client.failure->message =
      "prompt of 9 tokens + max_tokens 1 = 10 do not fit the context of 8 tokens";
  gateway.client.failure->needed = 10;
  gateway.client.failure->largest = 8;
  const Reply reply = gateway.ask(post(kPath, kBody + "}"));
  EXPECT_EQ(reply.status, 400);
  const json body = json::parse(reply.body);
  EXPECT_EQ(body["type"], "error");
  EXPECT_EQ(body["error"]["type"], "invalid_request_error");
  const std::string message = body["error"]["message"];
  EXPECT_TRUE(message.starts_with("prompt is too long: 10 tokens > 8 maximum")) << message;
  EXPECT_EQ(json::parse(gateway.ask(post("/v1/messages/none", "{}")).body)["error"]["type"],
            "not_found_error");
}

TEST(MessageBody, NonTextBlocks_WhenUnsupported_AreOmittedAndReported) {
  nlohmann::ordered_json body;
  FieldError error;
  gateway::Generation out;
  ASSERT_TRUE(gateway::parse_json_object(
      R"({"model":"m","max_tokens":5,
          "system":[{"type":"text","text":"x-anthropic-billing-header: a=1"},
                    {"type":"text","text":"Be brief."}],
          "messages":[{"role":"user","content":[
              {"type":"document","title":"T","source":{"type":"text","data":"D"}},
              {"type":"text","text":"Go"}]},
            {"role":"assistant","content":[
              {"type":"server_tool_use","id":"s","name":"web_search","input":{}},
              {"type":"web_search_tool_result","tool_use_id":"s","content":[]},
              {"type":"text","text":"I know."}]},
            {"role":"user","content":"So?"}],
          "tools":[{"type":"web_search_20250305","name":"web_search"},
                   {"type":"bash_20250124","name":"bash","cache_control":{"type":"ephemeral"}}]})",
      &body, &error));
  ASSERT_TRUE(gateway::parse_message(body, {}, &out, &error)) << error.message;
  const json chat = json::parse(*out.submit.prompts.at(0).messages_json);
  EXPECT_EQ(chat["messages"], json::parse(R"([{"role":"system","content":"Be brief."},
      {"role":"user","content":"T\nD\nGo"},{"role":"assistant","content":"I know."},
      {"role":"user","content":"So?"}])"));
  ASSERT_EQ(chat["tools"].size(), 1u);
  EXPECT_EQ(chat["tools"][0]["function"]["name"], "bash");
  EXPECT_TRUE(chat["tools"][0]["function"]["parameters"]["properties"].contains("command"));
  EXPECT_FALSE(chat["tools"][0]["function"].contains("cache_control"));
  for (const char* name : {"tools[0]:web_search_20250305", "system[0]:attribution",
                           "messages[1].content[0]:server_tool_use",
                           "messages[1].content[1]:web_search_tool_result"}) {
    EXPECT_NE(std::find(out.ignored.begin(), out.ignored.end(), name), out.ignored.end()) << name;
  }
}

}  // namespace
}  // namespace holdfast::test::messages_test
