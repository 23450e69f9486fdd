// Goal: a picture or a file in a tool's result ends no conversation: the model is told that it is
// left out, the client is told its place; what the user itself shows is refused. Method: bodies as
// coding agents send them when they have read a picture, in both dialects that have such results.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/gateway/anthropic/message_body.h"
#include "control/gateway/common/tool_result.h"
#include "control/gateway/responses/response_body.h"
#include "shared/base/json_fields.h"

namespace holdfast::test::tool_result_test {
namespace {

using json = nlohmann::ordered_json;

TEST(ToolResult, MessagesToolResult_WithImage_OmitsAndReportsIt) {
  const json body = json::parse(R"({"model":"m","max_tokens":5,"messages":[
      {"role":"user","content":"Look"},
      {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Read","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[
        {"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}},
        {"type":"text","text":"1 x 1"},
        {"type":"document","source":{"type":"base64","data":"JVBE"}},
        {"type":"document","source":{"type":"text","data":"a page"}}]}]}]})");
  FieldError error;
  gateway::Generation out;
  ASSERT_TRUE(gateway::parse_message(body, {}, &out, &error)) << error.message;
  const json chat = json::parse(*out.submit.prompts.at(0).messages_json);
  EXPECT_EQ(chat["messages"].back()["content"],
            "[image left out: it cannot be read here]\n1 x 1\n"
            "[document left out: it cannot be read here]\na page");
  EXPECT_EQ(out.ignored, (std::vector<std::string>{"messages[2].content[0].content[0]:image",
                                                   "messages[2].content[0].content[2]:document"}));
}

TEST(ToolResult, ResponsesToolOutput_WithImage_OmitsAndReportsIt) {
  const json body = json::parse(R"({"model":"m","input":[
      {"role":"user","content":"Look"},
      {"type":"function_call","call_id":"c","name":"view_image","arguments":"{}"},
      {"type":"function_call_output","call_id":"c","output":[
        {"type":"input_image","image_url":"data:image/png;base64,iVBO"},
        {"type":"input_text","text":"1 x 1"}]}]})");
  FieldError error;
  gateway::ResponsesRequest request;
  ASSERT_TRUE(gateway::parse_response(body, &request, &error)) << error.message;
  json chat;
  ASSERT_TRUE(gateway::chat_body(request, {request.items}, &chat, &error)) << error.message;
  EXPECT_EQ(chat["messages"].back()["content"], "[image left out: it cannot be read here]\n1 x 1");
  EXPECT_TRUE(chat.contains("input[2].output[0]:image")) << chat.dump();
}

TEST(ToolResult, ToolResult_WithTextOnly_IsUnchanged) {
  for (const char* content : {R"("a wall")", "null", R"([{"type":"text","text":"a"},7])", "[]"}) {
    json left_out = json::object();
    const json before = json::parse(content);
    EXPECT_EQ(gateway::without_pictures("c", before, &left_out), before);
    EXPECT_TRUE(left_out.empty());
  }
}

}  // namespace
}  // namespace holdfast::test::tool_result_test
