// Goal: no source, however made, takes unbounded time or memory: each is compiled or refused within
// the limits. Method: sources that explode in naive compilers, with the limits lowered where that
// makes the test quicker; the work counter of the limits is the clock, so nothing here is timed.

#include <gtest/gtest.h>

#include "support.h"

namespace holdfast::grammar::tests::limits_test {
namespace {

void expect_refused(const Result<GrammarPtr>& grammar, const std::string& word) {
  ASSERT_FALSE(grammar.has_value());
  EXPECT_EQ(grammar.error().code, Errc::kInvalidRequest) << grammar.error().what;
  EXPECT_NE(grammar.error().what.find(word), std::string::npos) << grammar.error().what;
  EXPECT_EQ(grammar.error().what.find('\n'), std::string::npos);
}

std::string repeated(const std::string& part, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += part;
  return out;
}

TEST(GrammarLimits, Regex_WhenTooLarge_IsRefused) {
  expect_refused(compile_regex("(a{1000}){1000}"), "states");
  expect_refused(compile_regex("(((((){100000}){100000}){100000}){100000})"), "steps");
  expect_refused(compile_regex("(a|b)*a(a|b){40}"), "more than");
  expect_refused(compile_regex("((a{1,100}){1,100}){1,100}"), "more than");
  expect_refused(compile_regex(std::string(70, '(') + "a" + std::string(70, ')')), "deeper");
  expect_refused(compile_regex(std::string(20'000, 'a')), "bytes");
  // Expressions that are catastrophic for backtracking matchers are harmless here.
  EXPECT_TRUE(accepts(compile_regex("(a+)+b").value(), std::string(500, 'a') + "b"));
  EXPECT_TRUE(accepts(compile_regex("(a|aa|a?)*c").value(), std::string(500, 'a') + "c"));
}

TEST(GrammarLimits, Gbnf_WhenTooLarge_IsRefused) {
  std::string doubling = "root ::= r0\n";
  for (int i = 0; i < 40; ++i) {
    const std::string next = "r" + std::to_string(i + 1);
    doubling += "r" + std::to_string(i) + " ::= " + next + " " + next + "\n";
  }
  doubling += "r40 ::= \"a\"\n";
  const auto many = compile_gbnf(doubling);  // 2^40 letters, cheap as calls
  ASSERT_TRUE(many.has_value()) << many.error().what;
  EXPECT_TRUE(begins(*many, std::string(1'000, 'a')));
  expect_refused(
      compile_gbnf("root ::= " + std::string(100, '(') + "\"a\"" + std::string(100, ')')),
      "deeper");
  expect_refused(compile_gbnf("root ::= \"a\"" + repeated("*", 20)), "repetitions");
  expect_refused(compile_gbnf("root ::= \"a\"{100000}{100000}"), "more than");
  std::string rules;
  for (int i = 0; i < 5'000; ++i) rules += "r" + std::to_string(i) + " ::= \"a\"\n";
  expect_refused(compile_gbnf(rules + "root ::= \"a\""), "rules");
  expect_refused(compile_gbnf(std::string(600'000, '#')), "bytes");
}

TEST(GrammarLimits, JsonSchema_WhenTooLarge_IsRefused) {
  expect_refused(compile_json_schema(repeated("[", 100'000)), "deeper");
  expect_refused(compile_json_schema(repeated(R"({"items":)", 70) + "{}" + repeated("}", 70)),
                 "deeper");
  expect_refused(compile_json_schema(std::string(600'000, ' ')), "bytes");
  EXPECT_TRUE(compile_json_schema(R"({"type":"string","maxLength":1000000})").has_value());
  expect_refused(compile_json_schema(R"({"type":"string","minLength":1000000000})"), "'minLength'");
  expect_refused(compile_json_schema(R"({"type":"array","items":{},"minItems":1000000})"),
                 "'minItems'");
  EXPECT_TRUE(compile_json_schema(R"({"type":"array","items":{},"maxItems":1000000})").has_value());
  expect_refused(compile_json_schema(R"({"type":"object","maxProperties":1000000})"),
                 "'properties'");
  expect_refused(compile_json_schema(R"({"type":"string","pattern":"^(a|b)*a(a|b){30}$"})"),
                 "'pattern'");
}

TEST(GrammarLimits, AllOf_WhenMergingWouldExplode_IsBounded) {
  std::string all = R"({"allOf":[)";
  for (int i = 0; i < 20; ++i) {
    const std::string n = std::to_string(i);
    all += std::string(i > 0 ? "," : "") + R"({"anyOf":[{"required":["a)" + n +
           R"("]},{"required":["b)" + n + R"("]},{"required":["c)" + n + R"("]}]})";
  }
  expect_refused(compile_json_schema(all + "]}"), "alternatives");
  // A chain of references, each of which contains the next one twice.
  std::string chain = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 60; ++i) {
    const std::string next = R"({"$ref":"#/$defs/d)" + std::to_string(i + 1) + "\"}";
    chain += "\"d" + std::to_string(i) + R"(":{"allOf":[)" + next + "," + next + "]},";
  }
  const auto chained = compile_json_schema(chain + R"("d60":{"type":"null"}}})");
  ASSERT_TRUE(chained.has_value()) << chained.error().what;
  EXPECT_TRUE(accepts(*chained, "null"));
  // The same with properties: 2^60 objects, yet 61 rules.
  std::string tree = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 60; ++i) {
    const std::string next = R"({"$ref":"#/$defs/d)" + std::to_string(i + 1) + "\"}";
    tree += "\"d" + std::to_string(i) + R"(":{"type":"object","properties":{"l":)" + next +
            ",\"r\":" + next + "}},";
  }
  EXPECT_TRUE(compile_json_schema(tree + R"("d60":{"type":"null"}}})").has_value());
}

TEST(GrammarLimits, JsonSchema_WhenLargeButOrdinary_Compiles) {
  std::string values = R"({"enum":[)";
  for (int i = 0; i < 10'000; ++i)
    values += (i > 0 ? ",\"" : "\"") + std::to_string(i * 7919) + "\"";
  const auto huge = compile_json_schema(values + "]}");
  ASSERT_TRUE(huge.has_value()) << huge.error().what;
  EXPECT_TRUE(accepts(*huge, "\"" + std::to_string(9'999 * 7919) + "\""));
  EXPECT_FALSE(accepts(*huge, "\"1\""));
  std::string wide = R"({"type":"object","properties":{)";
  for (int i = 0; i < 200; ++i) {
    wide += (i > 0 ? ",\"field_" : "\"field_") + std::to_string(i) + R"(":{"type":"string"})";
  }
  const auto optional = compile_json_schema(wide + "}}");
  ASSERT_TRUE(optional.has_value()) << optional.error().what;
  EXPECT_TRUE(accepts(*optional, R"({"field_7":"x","field_150":"y"})"));
  EXPECT_FALSE(accepts(*optional, R"({"field_150":"x","field_7":"y"})"));
  EXPECT_TRUE(compile_json_schema(R"({"type":"string","maxLength":5000})").has_value());
}

/// A tool as servers describe them: texts of some length, lists of objects, objects in objects.
std::string tool(int i) {
  const std::string n = std::to_string(i);
  std::string deep;
  for (int k = 0; k < 8; ++k) {
    deep += std::string(k > 0 ? "," : "") + "\"p" + std::to_string(k) +
            R"(":{"type":"object","properties":{"q":{"type":"string","maxLength":200},)" +
            R"("r":{"type":"integer","minimum":0,"maximum":1000}}})";
  }
  return R"({"name":"tool_)" + n + R"(","parameters":{"type":"object","required":["a"],)" +
         R"("properties":{"a":{"type":"string","maxLength":10000,"description":")" +
         std::string(1'000, 'd') + R"("},"mode":{"enum":["m)" + n + R"(_1","m)" + n + R"(_2"]},)" +
         R"("list":{"type":"array","items":{"type":"object","properties":{"x":{"type":)" +
         R"(["number","null"]},"url":{"type":"string","maxLength":255}}}},)" +
         R"("nest":{"type":"object","properties":{)" + deep + "}}}}}";
}

TEST(GrammarLimits, ToolCallGrammar_WithManyTools_SharesEqualRules) {
  std::string tools = R"({"form":"hermes","tools":[)";
  for (int i = 0; i < 128; ++i) tools += (i > 0 ? "," : "") + tool(i);
  const auto grammar = compile_tool_call(tools + "]}");
  ASSERT_TRUE(grammar.has_value()) << grammar.error().what;
  EXPECT_TRUE(begins(*grammar,
                     "<tool_call>\n{\"name\": \"tool_97\", \"arguments\": {\"a\":\"x\","
                     "\"mode\":\"m97_2\""));
  EXPECT_FALSE(begins(*grammar,
                      "<tool_call>\n{\"name\": \"tool_97\", \"arguments\": {\"a\":\"x\","
                      "\"mode\":\"m96_2\""));
}

// A grammar with a great many ways to read one text is refused while matching, never matched
// wrongly.
TEST(GrammarLimits, Matcher_WhenTheGrammarIsAmbiguous_IsBounded) {
  const auto grammar =
      compile_gbnf("root ::= s\ns ::= \"a\" s s | \"a\" s | \"a\" | b s s s\nb ::= \"a\"");
  ASSERT_TRUE(grammar.has_value());
  Matcher matcher(masks_of(*grammar, demo_table()));
  std::vector<std::uint64_t> bits(matcher.table().mask_words());
  for (int i = 0; i < 300; ++i) {
    if (!matcher.accept_bytes("a")) break;
    if (!matcher.fill_mask(bits)) {
      for (const std::uint64_t word : bits) EXPECT_EQ(word, 0u);
      break;
    }
  }
}

}  // namespace
}  // namespace holdfast::grammar::tests::limits_test
