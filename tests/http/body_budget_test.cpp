// Goal: nothing that a body holds becomes much larger than the body, whichever endpoint reads it;
// what would is refused with the parameter's name. Method: bodies that were made to grow (JSON in
// texts, names that stand for many tools, lists that become objects, echoed prompts), as a POST and
// as a line of a batch's file; the error, and how much memory reading them took.
#include "control/gateway/http/body_budget.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "control/gateway/anthropic/message_body.h"
#include "control/gateway/common/model_binding.h"
#include "control/gateway/common/params.h"
#include "control/gateway/http/json_body.h"
#include "control/gateway/objects/batch_input.h"
#include "control/gateway/responses/response_body.h"

namespace holdfast::gateway::body_budget_test {
namespace {

using json = nlohmann::ordered_json;

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

using Parse = bool (*)(const json&, const ParamLimits&, Generation*, FieldError*);

/// Parses a response's body into a request.
bool parse_turn(const json& body, const ParamLimits& limits, Generation* out, FieldError* error) {
  ResponsesRequest request;
  json chat;
  return parse_response(body, &request, error) &&
         chat_body(request, {request.items}, &chat, error) && parse_chat(chat, limits, out, error);
}

struct Outcome {
  bool ok = false;
  FieldError error;
  std::size_t made = 0;  // bytes of what goes to the daemon
};

Outcome read(const std::string& text, Parse parse) {
  Outcome out;
  json body;
  Generation generation;
  out.ok = parse_json_object(text, &body, &out.error) && parse(body, {}, &generation, &out.error);
  if (!out.ok) return out;
  bind_to_model(&generation);
  out.made = generation.submit.sampling.extra.size();
  for (const auto& prompt : generation.submit.prompts) {
    out.made += prompt.messages_json.value_or("").size() + prompt.text.value_or("").size();
  }
  return out;
}

std::string chat_with_arguments(const std::string& arguments) {
  return json{{"model", "m"},
              {"messages",
               {{{"role", "assistant"},
                 {"content", nullptr},
                 {"tool_calls",
                  {{{"id", "a"},
                    {"type", "function"},
                    {"function", {{"name", "f"}, {"arguments", arguments}}}}}}}}}}
      .dump();
}

TEST(BodyBudget, ToolCallArguments_WhenNestedTooDeep_AreRefused) {
  EXPECT_TRUE(read(chat_with_arguments(R"({"x":)" + nested(20) + "}"), parse_chat).ok);
  EXPECT_TRUE(read(chat_with_arguments("no JSON " + nested(500)), parse_chat).ok);
  for (const std::size_t depth : {40u, 80'000u, 300'000u}) {
    const Outcome out = read(chat_with_arguments(R"({"x":)" + nested(depth) + "}"), parse_chat);
    EXPECT_FALSE(out.ok) << depth;
    EXPECT_EQ(out.error.param, "messages[0].tool_calls[0].function.arguments");
    EXPECT_NE(out.error.message.find("deeper"), std::string::npos) << out.error.message;
  }
  const std::string item = json{{"model", "m"},
                                {"input",
                                 {{{"type", "function_call"},
                                   {"call_id", "a"},
                                   {"name", "f"},
                                   {"arguments", R"({"x":)" + nested(100'000) + "}"}}}}}
                               .dump();
  EXPECT_FALSE(read(item, parse_turn).ok);
}

TEST(BodyBudget, JsonSchemaText_WhenTooDeepOrWide_IsRefused) {
  const auto body = [](const std::string& schema) {
    return json{{"model", "m"}, {"prompt", "a"}, {"guided_json", schema}}.dump();
  };
  EXPECT_TRUE(read(body(R"({"type":"object"})"), parse_completion).ok);
  const Outcome deep = read(body(R"({"enum":)" + nested(100'000) + "}"), parse_completion);
  EXPECT_FALSE(deep.ok);
  EXPECT_EQ(deep.error.param, "guided_json");
  std::string wide = "{\"properties\":{\"0\":{}";
  for (int i = 1; i < 50'000; ++i) wide += ",\"" + std::to_string(i) + "\":{}";
  EXPECT_FALSE(read(body(wide + "}}"), parse_completion).ok);
}

std::string with_allowed(int tools, int names, bool same) {
  json body = {{"model", "m"}, {"messages", {{{"role", "user"}, {"content", "a"}}}}};
  const auto tool = [same](int i) {
    return json{{"type", "function"},
                {"function", {{"name", same ? "a" : "t" + std::to_string(i)}}}};
  };
  json& list = body["tools"] = json::array();
  for (int i = 0; i < tools; ++i) list.push_back(tool(i));
  json allowed = json::array();
  for (int i = 0; i < names; ++i) allowed.push_back(tool(i));
  body["tool_choice"] = {{"type", "allowed_tools"},
                         {"allowed_tools", {{"mode", "required"}, {"tools", allowed}}}};
  return body.dump();
}

TEST(BodyBudget, AllowedTools_WhenDuplicated_AreRefused) {
  for (const auto& [tools, names] : {std::pair(1, 2), std::pair(2, 1), std::pair(3'000, 3'000)}) {
    const Outcome out = read(with_allowed(tools, names, true), parse_chat);
    EXPECT_FALSE(out.ok);
    EXPECT_TRUE(out.error.param.starts_with("tool")) << out.error.param;
    EXPECT_NE(out.error.message.find("twice"), std::string::npos) << out.error.message;
  }
  const std::string many = with_allowed(5'000, 4'000, false);
  const Outcome out = read(many, parse_chat);
  EXPECT_TRUE(out.ok) << out.error.message;
  EXPECT_LT(out.made, BodyBudget::kBytesGrowth * many.size());
}

// Quadratic parsing would take minutes and gigabytes here.
TEST(BodyBudget, LargeLists_WhenParsed_TakeLinearTime) {
  const auto begun = std::chrono::steady_clock::now();
  std::string bias = "[[0,1]";
  for (int i = 1; i < 120'000; ++i) bias += ",[" + std::to_string(i) + ",1]";
  const Outcome biased =
      read(R"({"model":"m","prompt":"a","logit_bias":)" + bias + "]}", parse_completion);
  EXPECT_FALSE(biased.ok);
  EXPECT_EQ(biased.error.param, "logit_bias");
  std::string unknown = R"({"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"}])";
  for (int i = 0; i < 1'000; ++i)
    unknown += ",\"" + std::string(900, 'x') + std::to_string(i) + "\":1";
  unknown += "}";
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(read(unknown, parse_message).ok);
  const auto took = std::chrono::steady_clock::now() - begun;
  EXPECT_LT(took, std::chrono::seconds(60)) << "with room for a slow machine; it was hours";
}

TEST(BodyBudget, EchoedPrompts_WhenTooLargeInAll_AreRefused) {
  const auto body = [](std::size_t bytes, int n) {
    return json{{"model", "m"}, {"prompt", std::string(bytes, 'a')}, {"n", n}, {"echo", true}}
        .dump();
  };
  EXPECT_TRUE(read(body(100'000, 128), parse_completion).ok);
  const Outcome out = read(body(900'000, 128), parse_completion);
  EXPECT_FALSE(out.ok);
  EXPECT_EQ(out.error.param, "echo");
  std::string prompts = "[\"\"";
  for (int i = 1; i < 300'000; ++i) prompts += ",\"\"";
  EXPECT_EQ(read(R"({"model":"m","prompt":)" + prompts + "]}", parse_completion).error.param,
            "prompt");
}

TEST(BodyBudget, BodyBudget_WhenTotalGrowthExceedsTheBound_Refuses) {
  BodyBudget budget;
  budget.take(json{{"a", std::string(1'000, 'x')}});
  const std::size_t most = BodyBudget::kBytesFree + BodyBudget::kBytesGrowth * 1'000;
  EXPECT_TRUE(budget.make(most / 2));
  const auto second = budget.make(most);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::kInvalidRequest);
  BodyBudget values;
  values.take(json::array({1, 2, 3}));
  EXPECT_FALSE(values.make(0, 100'000));
}

// ---- the same as lines of a file

std::string line(const std::string& id, const std::string& body) {
  return R"({"custom_id":")" + id + R"(","method":"POST","url":"/v1/chat/completions","body":)" +
         body + "}\n";
}
const std::string kSmall = R"({"model":"m","messages":[{"role":"user","content":"a"}]})";

TEST(BatchInput, BatchFile_WhenOneLineIsBad_ReportsItAndReadsTheRest) {
  const std::string large = R"({"model":"m","prompt":")" + std::string(5'000'000, 'x') + "\"}";
  const std::string file = line("a", kSmall) + line("large", large) +
                           line("deep", R"({"x":)" + nested(50'000) + "}") + "\r\n" +
                           line("text", chat_with_arguments("{\"x\":" + nested(90'000) + "}")) +
                           line("z", kSmall);
  for (const std::size_t step : {std::size_t{1'000}, file.size()}) {
    BatchReader reader("/v1/chat/completions", 1 << 20);
    for (std::size_t at = 0; at < file.size(); at += step) reader.feed(file.substr(at, step));
    const auto errors = reader.end();
    ASSERT_TRUE(errors.empty()) << errors[0].code << " " << errors[0].message;
    const auto& lines = reader.lines();
    ASSERT_EQ(lines.size(), 5u);
    const char* names[] = {"a", "large", "deep", "text", "z"};
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(lines[i].custom_id, names[i]);
    EXPECT_NE(lines[1].refusal.find("bytes"), std::string::npos) << lines[1].refusal;
    EXPECT_NE(lines[2].refusal.find("deeper"), std::string::npos) << lines[2].refusal;
    for (const std::size_t i : {0u, 3u, 4u}) {
      EXPECT_TRUE(lines[i].refusal.empty()) << lines[i].refusal;
      const std::string text = file.substr(static_cast<std::size_t>(lines[i].from), lines[i].bytes);
      EXPECT_EQ(json::parse(text)["custom_id"], names[i]) << "where it stands";
    }
  }
}

TEST(BatchInput, BatchFile_WhenNotAListOfRequests_FailsWithItsCode) {
  const std::pair<std::string, const char*> files[] = {
      {"", "empty_file"},
      {"{", "invalid_json_line"},
      {line("a", kSmall) + line("a", kSmall), "duplicate_custom_id"},
      {"{\"custom_id\":1}", "missing_required_parameter"},
      {std::string(3 << 20, 'x'), "line_too_large"}};
  for (const auto& [file, code] : files) {
    BatchReader reader("/v1/chat/completions", 1 << 20);
    reader.feed(file);
    const auto errors = reader.end();
    ASSERT_FALSE(errors.empty()) << code;
    EXPECT_EQ(errors[0].code, code);
  }
}

/// Errors are stored with the batch, whose document is bounded: longer ones could not be stored.
TEST(BatchInput, BatchErrors_WhenLinesAreLong_AreShort) {
  BatchReader reader("/v1/chat/completions", 1 << 20);
  for (int i = 0; i < 30 && !reader.is_hopeless(); ++i) {
    reader.feed("{\"custom_id\":\"" + std::string(1'000'000, 'x') + "\n");
  }
  const auto errors = reader.end();
  ASSERT_FALSE(errors.empty());
  for (const BatchError& error : errors) EXPECT_LT(error.message.size(), 1'000u) << error.code;
}

TEST(BatchInput, BatchLine_WhenGuardRejectsIt_IsNotRead) {
  BatchReader reader("/v1/chat/completions", 1 << 20,
                     [](std::size_t number, const std::function<void()>& read) {
                       if (number == 1) return false;
                       read();
                       return true;
                     });
  reader.feed(line("a", kSmall) + "{ nothing that could be read\n" + line("c", kSmall));
  EXPECT_TRUE(reader.end().empty());
  ASSERT_EQ(reader.lines().size(), 3u);
  EXPECT_FALSE(reader.lines()[1].refusal.empty());
  EXPECT_EQ(reader.lines()[2].custom_id, "c");
}

}  // namespace
}  // namespace holdfast::gateway::body_budget_test
