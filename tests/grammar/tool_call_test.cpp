// Goal: a required call is written as its family writes it, with arguments that its schema allows,
// after reasoning where the model has it; whatever is allowed is parsed by shared/chat. Method:
// texts that must and must not be allowed, byte by byte; random walks over the demo model's
// vocabulary, whose texts are parsed as calls.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "shared/chat/output_parser.h"
#include "support.h"

namespace holdfast::grammar::tests::tool_call_test {
namespace {

using nlohmann::json;

const std::string kTools =
    R"("tools":[{"name":"look","parameters":{"type":"object","properties":{"n":{"type":"integer",)"
    R"("minimum":1,"maximum":9}},"required":["n"],"additionalProperties":false}},)"
    R"({"name":"a\"b"}])";

GrammarPtr calls(const std::string& members) {
  auto grammar = compile_tool_call("{" + members + "," + kTools + "}");
  EXPECT_TRUE(grammar.has_value()) << grammar.error().what;
  return grammar.value();
}

const std::string kLook =
    "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"n\": 3}}\n</tool_call>";
const std::string kOther =
    "<tool_call>\n{\"name\": \"a\\\"b\", \"arguments\": {\"x\": [1]}}\n</tool_call>";

TEST(ToolCall, HermesForm_WithOneOrMoreCalls_IsAccepted) {
  const GrammarPtr many = calls(R"("form":"hermes")");
  EXPECT_TRUE(accepts(many, kLook));
  EXPECT_TRUE(accepts(many, kOther));
  EXPECT_TRUE(accepts(many, kLook + "\n" + kOther + "\n" + kLook));
  EXPECT_FALSE(accepts(many, ""));
  EXPECT_FALSE(accepts(many, kLook + kLook));
  EXPECT_FALSE(begins(many, "Sure"));
  EXPECT_FALSE(begins(many, "<think>"));
  EXPECT_FALSE(begins(many, "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"n\": 0"));
  EXPECT_FALSE(begins(many, "<tool_call>\n{\"name\": \"lock"));
  const GrammarPtr one = calls(R"("form":"hermes","single":true)");
  EXPECT_TRUE(accepts(one, kLook));
  EXPECT_FALSE(begins(one, kLook + "\n"));
}

TEST(ToolCall, Reasoning_WhenAllowed_MayPrecedeTheCall) {
  const GrammarPtr may = calls(R"("form":"hermes","reasoning":true)");
  EXPECT_TRUE(accepts(may, kLook));
  EXPECT_TRUE(accepts(may, "<think>if </thing> < 3\nthen ü</think>\n\n" + kLook));
  EXPECT_FALSE(begins(may, "<think>a</think>b"));
  EXPECT_FALSE(accepts(may, "<think>a" + kLook));
  const GrammarPtr opened = calls(R"("form":"hermes","reasoning":true,"opened":true)");
  EXPECT_TRUE(accepts(opened, "so </think>" + kLook));
  EXPECT_FALSE(accepts(opened, kLook)) << "the prompt has begun a thought, which must end";
}

TEST(ToolCall, Llama3Form_WithJsonCalls_IsAccepted) {
  const GrammarPtr many = calls(R"("form":"llama3")");
  const std::string look = R"({"name": "look", "parameters": {"n": 3}})";
  EXPECT_TRUE(accepts(many, look));
  EXPECT_TRUE(accepts(many, look + "; " + look));
  EXPECT_FALSE(begins(many, "["));
}

TEST(ToolCall, ToolCallRequest_WhenInvalid_NamesTheField) {
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"form":"x","tools":[{"name":"a"}]})", "form"},
      {R"({"form":"hermes","tools":[]})", "tools"},
      {R"({"form":"hermes","tools":[{"name":7}]})", "name"},
      {R"({"form":"hermes","tools":[{"name":"a","parameters":{"type":"obj"}}]})",
       "parameters of a"},
      {R"({"form":"hermes","tools":[{"name":"a","parameters":false}]})", "tool call"},
      {"[", "tool call"}};
  for (const auto& [source, why] : wrong) {
    const auto grammar = compile_tool_call(source);
    ASSERT_FALSE(grammar.has_value()) << source;
    EXPECT_EQ(grammar.error().code, Errc::kInvalidRequest);
    EXPECT_NE(grammar.error().what.find(why), std::string::npos) << grammar.error().what;
  }
}

TEST(ToolCall, ToolCall_WhenGeneratedByTheGrammar_IsParsed) {
  std::mt19937_64 random(3);
  int ended = 0;
  for (const char* form : {"hermes", "llama3"}) {
    const auto masks =
        masks_of(calls(R"("single":true,"reasoning":true,"form":")" + std::string(form) + "\""),
                 demo_table());
    for (int round = 0; round < 40; ++round) {
      Matcher matcher(masks);
      std::string text;
      for (int i = 0; i < 400 && !matcher.ended(); ++i) {
        const std::vector<TokenId> allowed = allowed_ids(matcher);
        ASSERT_FALSE(allowed.empty()) << text;
        const TokenId id = allowed[random() % allowed.size()];
        text += matcher.table().bytes(id);
        ASSERT_TRUE(matcher.accept(id));
      }
      if (!matcher.ended()) continue;
      ++ended;
      chat::OutputOptions options;
      options.format = chat::tool_format_from_name(form);
      options.tools = options.reasoning = true;
      chat::OutputParser parser(options);
      chat::OutputDelta all = parser.feed(text);
      const chat::OutputDelta rest = parser.finish();
      all.calls.insert(all.calls.end(), rest.calls.begin(), rest.calls.end());
      EXPECT_EQ(all.content + rest.content, "") << text;
      std::string arguments;
      for (const chat::CallDelta& call : all.calls) arguments += call.arguments;
      ASSERT_FALSE(all.calls.empty()) << text;
      EXPECT_TRUE(all.calls[0].name == "look" || all.calls[0].name == "a\"b") << text;
      EXPECT_TRUE(json::parse(arguments, nullptr, false).is_object()) << text;
    }
  }
  EXPECT_GT(ended, 20);
}

}  // namespace
}  // namespace holdfast::grammar::tests::tool_call_test
