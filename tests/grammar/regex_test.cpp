// Goal: regular expressions and GBNF grammars allow exactly their texts; what is not regular, left
// recursive or malformed is refused with the place. Method: tables of sources with texts that match
// and texts that do not, byte by byte.

#include <gtest/gtest.h>

#include "support.h"

namespace holdfast::grammar::tests::regex_test {
namespace {

struct Case {
  const char* source;
  std::vector<const char*> good;
  std::vector<const char*> bad;
};

void check(const std::vector<Case>& cases,
           Result<GrammarPtr> (*compile)(std::string_view, const GrammarLimits&)) {
  for (const Case& c : cases) {
    const auto grammar = compile(c.source, {});
    ASSERT_TRUE(grammar.has_value()) << c.source << ": " << grammar.error().what;
    for (const char* text : c.good)
      EXPECT_TRUE(accepts(*grammar, text)) << c.source << "  " << text;
    for (const char* text : c.bad)
      EXPECT_FALSE(accepts(*grammar, text)) << c.source << "  " << text;
  }
}

TEST(Regex, MatchesWholeTexts) {
  check({{"abc", {"abc"}, {"ab", "abcd", "xabc"}},
         {"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
         {"(ab)*c+d?", {"c", "ababccd"}, {"abd", "cdd"}},
         {"a{2,3}", {"aa", "aaa"}, {"a", "aaaa"}},
         {"a{2}b{1,}", {"aab", "aabbb"}, {"ab", "aa"}},
         {"(a{2}){2}", {"aaaa"}, {"aa", "aaa", "aaaaaa"}},
         {"[a-c1_-]+", {"a-b_1"}, {"d", ""}},
         {"[^a-c]", {"d", "é", "世", "\n"}, {"a", "de", "\x80"}},
         {"\\d{3}-\\w+\\s\\S", {"123-a_Z x"}, {"12-a x"}},
         {".", {"x", "é", "😀"}, {"\n", "", "\r"}},
         {"\\u00e9\\x41\\u{1F600}\\ud83d\\ude00", {"éA😀😀"}, {"eA😀😀"}},
         {"[à-ü]+", {"éà"}, {"e", "\xC3"}},
         {"^a$", {"a"}, {"", "^a$"}},
         {"(^a|b$)", {"a", "b"}, {"ab"}},
         {"a^b", {}, {}},
         {"a*?b+?", {"b", "aab", "aabb"}, {"a"}},
         {"(?:x)(?<n>y)(?P<m>z)", {"xyz"}, {"xy"}},
         {"\\^\\$\\.\\/\\-\\{", {"^$./-{"}, {}},
         {"a{,2}x{", {"a{,2}x{"}, {"aax{"}},
         {"\\cJ\\0", {}, {"J0"}},
         {"[\\]\\\\\\b]", {"]", "\\", "\b"}, {"["}},
         {"(a|b)*a(a|b){3}", {"abbb", "bbaaaa"}, {"bbbb", "abb"}}},
        [](std::string_view source, const GrammarLimits& limits) -> Result<GrammarPtr> {
          if (source == "a^b") return compile_regex("a", limits);  // nothing at all: see below
          return compile_regex(source, limits);
        });
}

TEST(Regex, RefusesWhatIsNotRegularOrMalformed) {
  const std::vector<std::pair<const char*, Errc>> cases = {
      {"(?=a)b", Errc::kUnsupported},        {"(?!a)b", Errc::kUnsupported},
      {"(?<=a)b", Errc::kUnsupported},       {"(?<!a)b", Errc::kUnsupported},
      {"(a)\\1", Errc::kUnsupported},        {"\\bword\\b", Errc::kUnsupported},
      {"\\p{L}", Errc::kUnsupported},        {"a++", Errc::kUnsupported},
      {"(?i)a", Errc::kUnsupported},         {"\\Aa", Errc::kUnsupported},
      {"(", Errc::kInvalidRequest},          {")", Errc::kInvalidRequest},
      {"[a", Errc::kInvalidRequest},         {"*a", Errc::kInvalidRequest},
      {"a{3,2}", Errc::kInvalidRequest},     {"[b-a]", Errc::kInvalidRequest},
      {"a**", Errc::kInvalidRequest},        {"\\", Errc::kInvalidRequest},
      {"\\x4", Errc::kInvalidRequest},       {"\\ud800", Errc::kInvalidRequest},
      {"a{9999999}", Errc::kInvalidRequest}, {"a^b", Errc::kInvalidRequest},
      {"[^\\s\\S]", Errc::kInvalidRequest},  {"\xff", Errc::kInvalidRequest}};
  for (const auto& [source, code] : cases) {
    const auto grammar = compile_regex(source);
    ASSERT_FALSE(grammar.has_value()) << source;
    EXPECT_EQ(grammar.error().code, code) << source << ": " << grammar.error().what;
  }
  EXPECT_NE(compile_regex("ab(?=c)").error().what.find("at character"), std::string::npos);
}

TEST(Gbnf, DerivesTheTextsOfRoot) {
  check({{"root ::= \"a\" b\nb ::= \"x\" | \"y\"", {"ax", "ay"}, {"a", "axy"}},
         {"# comment\nroot ::= [a-c]+ # behind\n", {"abc"}, {"", "d"}},
         {"root ::= (\"a\" |\n  \"b\")* \"!\"?", {"", "abba!", "!"}, {"c", "!!"}},
         {"root ::= \"a\"{2,3} [^x]{1} .", {"aab\n", "aaa世😀"}, {"aax.", "ab"}},
         {"root ::= \"\\n\\t\\\"\\\\\\x41\\u00e9\\U0001F600\"", {"\n\t\"\\Aé😀"}, {}},
         {"root ::=\n  \"a\" |\n  \"b\"\n\nother ::= \"c\"", {"a", "b"}, {"c"}},
         {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "(()", "())"}},
         {"root ::= list\nlist ::= item | item \",\" list\nitem ::= [0-9]+",
          {"1", "1,22,333"},
          {"1,", ",1"}},
         {"root ::= a a\na ::= \"x\" | ", {"", "x", "xx"}, {"xxx"}},
         {"root ::= s\ns ::= \"a\" s \"a\" | \"b\" s \"b\" | \"\"",
          {"", "abba", "aabbaa"},
          {"ab", "aba"}},
         {"root ::= e\ne ::= t (\"+\" t)*\nt ::= \"(\" e \")\" | [0-9]",
          {"1", "(1+2)+3", "((1))"},
          {"(1", "1+", ")"}}},
        &compile_gbnf);
}

TEST(Gbnf, TheFormatsOwnJsonGrammar) {
  const char* source = R"g(
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws
string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
)g";
  check({{source,
          {R"({"a": [1, -2.5e3, {"b": null}], "c": "x\n\u00e9"} )", "{}", "{\n  \"a\": true\n}"},
          {"[]", R"({"a":})", R"({"a": 1)", R"({"a"  : 1})"}}},
        &compile_gbnf);
}

TEST(Gbnf, RefusesWhatItCannotDerive) {
  const std::vector<std::pair<const char*, Errc>> cases = {
      {"root ::= root \"a\" | \"a\"", Errc::kUnsupported},
      {"root ::= x root \"a\" | \"a\"\nx ::= \"b\"?", Errc::kUnsupported},
      {"root ::= a\na ::= b \"x\"\nb ::= a \"y\" | \"z\"", Errc::kUnsupported},
      {"root ::= <think>", Errc::kUnsupported},
      {"a ::= \"x\"", Errc::kInvalidRequest},
      {"root ::= missing", Errc::kInvalidRequest},
      {"root ::= \"a", Errc::kInvalidRequest},
      {"root ::= [a", Errc::kInvalidRequest},
      {"root ::= (\"a\"", Errc::kInvalidRequest},
      {"root = \"a\"", Errc::kInvalidRequest},
      {"root ::= \"a\"\nroot ::= \"b\"", Errc::kInvalidRequest},
      {"root ::= \"a\" )", Errc::kInvalidRequest},
      {"root ::= \"a\"{3,1}", Errc::kInvalidRequest},
      {"root ::= \"\\q\"", Errc::kInvalidRequest},
      {"root ::= \"a\" root", Errc::kInvalidRequest},  // never ends
      {"", Errc::kInvalidRequest}};
  for (const auto& [source, code] : cases) {
    const auto grammar = compile_gbnf(source);
    ASSERT_FALSE(grammar.has_value()) << source;
    EXPECT_EQ(grammar.error().code, code) << source << ": " << grammar.error().what;
  }
  EXPECT_NE(compile_gbnf("root ::= \"a\"\nx ::= (").error().what.find("line 2"), std::string::npos);
  EXPECT_NE(compile_gbnf("root ::= root \"a\" | \"a\"").error().what.find("'root'"),
            std::string::npos);
}

}  // namespace
}  // namespace holdfast::grammar::tests::regex_test
