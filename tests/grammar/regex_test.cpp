// Goal: regular expressions and GBNF grammars allow exactly their texts; sources that are not
// regular, left recursive or malformed are refused with the place. Method: tables of sources with
// texts that match and texts that do not, byte by byte.

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

TEST(Regex, Regex_WhenCompiled_MatchesWholeTexts) {
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

TEST(Regex, LookaheadAndLookbehind_WhenCompiled_MatchExactly) {
  check({{"^(?=.*[A-Z])(?=.*\\d).{4,}$", {"aB1c", "1AAA", "éA1世"}, {"aB1", "abc1", "ABCD"}},
         {"^(?!\\s*$).+", {"a", " a "}, {"", " ", "\t"}},
         {"(?!a)[a-c]+", {"b", "ca"}, {"a", "ab"}},
         {"(?!abc$)abc.*", {"abcd"}, {"abc"}},
         {"^((?!no).)*$", {"", "n", "on"}, {"no", "anot"}},
         {"(?=(a|b)*c)[a-d]+", {"abc", "cd"}, {"ad", "d"}},
         {"a(?=b)b?", {"ab"}, {"a"}},
         {"(?!(?=a)ab)a.", {"ac"}, {"ab"}},
         {"(?:a(?!a)|b)*", {"", "ab", "abab", "ba"}, {"aa", "baa"}},
         {"[ab]*(?<=ab)c", {"abc", "babc"}, {"c", "bac"}},
         {"[ab]*(?<!b)c", {"c", "bac"}, {"abc"}},
         {"(?<=^|,)a,?(?<=^a,)b", {"a,b"}, {"ab"}},
         {"^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$", {"1", "-1.5", "00.", ".5"}, {"", "-", ".", "1.5.5"}},
         {"^P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+D)?(T(?=\\d)(\\d+H)?)?)$",
          {"P1W", "P1Y", "P1Y2DT3H", "PT5H"},
          {"P", "PT", "P1YT", "1W"}}},
        &compile_regex);
}

TEST(Regex, WordBoundaries_WhenCompiled_MatchExactly) {
  check({{".*\\bword\\b.*", {"word", "a word.", "é word", "-word-"}, {"sword", "words", "a_word"}},
         {"a\\B.*", {"ab", "a1"}, {"a", "a b"}},
         {"(?=.*\\bx\\b)[x y]+", {"x", "y x"}, {"xy", "xx"}}},
        &compile_regex);
  // A word begins anew after an escape of JSON.
  const auto grammar = compile_json_schema(R"({"type":"string","pattern":"\\nb\\b|\\n\\Bc"})");
  ASSERT_TRUE(grammar.has_value()) << grammar.error().what;
  EXPECT_TRUE(accepts(*grammar, R"("\nb")"));
  EXPECT_FALSE(accepts(*grammar, R"("\nc")"));
}

TEST(Regex, UnicodePropertiesAndFlags_WhenCompiled_MatchExactly) {
  check({{"\\p{L}+", {"aé世", "ß"}, {"1", "a1", " "}},
         {"\\p{Lu}\\p{Ll}*", {"A", "Éa"}, {"a", "AA"}},
         {"\\P{L}", {"1", " ", "😀"}, {"a", "世"}},
         {"[\\p{N}_]+", {"1_٣"}, {"a"}},
         {"\\p{Script=Han}\\p{sc=Greek}\\p{gc=Nd}", {"世α1"}, {"aa1"}},
         {"\\p{Letter}\\pN", {"a1"}, {"1a"}},
         {"\\p{Extended_Pictographic}", {"😀"}, {"a"}},
         {"(?i)abc[d-f]", {"abcd", "ABCF", "aBcE"}, {"abcg"}},
         {"a(?i:b)c", {"abc", "aBc"}, {"Abc", "abC"}},
         {"(?i)[^a]", {"b", "B"}, {"a", "A"}},
         {"(?<y>\\d)(?P<z>a)", {"1a"}, {}}},
        &compile_regex);
}

TEST(Regex, Regex_WhenNotRegularOrMalformed_IsRefused) {
  const std::vector<std::pair<const char*, Errc>> cases = {{"(?=a)b", Errc::kInvalidRequest},
                                                           {"(?<=a)b", Errc::kInvalidRequest},
                                                           {"a\\Bb\\b(?!$)", Errc::kInvalidRequest},
                                                           {"(?<=a$)b", Errc::kUnsupported},
                                                           {"(?<!(?=b)a)b", Errc::kUnsupported},
                                                           {"(?m)a", Errc::kUnsupported},
                                                           {"(a)\\1", Errc::kUnsupported},
                                                           {"a(b(?i)c)", Errc::kUnsupported},
                                                           {"\\p{Klingon}", Errc::kUnsupported},
                                                           {"a++", Errc::kUnsupported},
                                                           {"(?>a)", Errc::kUnsupported},
                                                           {"\\Aa", Errc::kUnsupported},
                                                           {"(", Errc::kInvalidRequest},
                                                           {")", Errc::kInvalidRequest},
                                                           {"[a", Errc::kInvalidRequest},
                                                           {"*a", Errc::kInvalidRequest},
                                                           {"a{3,2}", Errc::kInvalidRequest},
                                                           {"[b-a]", Errc::kInvalidRequest},
                                                           {"a**", Errc::kInvalidRequest},
                                                           {"\\", Errc::kInvalidRequest},
                                                           {"\\x4", Errc::kInvalidRequest},
                                                           {"\\ud800", Errc::kInvalidRequest},
                                                           {"a{9999999}", Errc::kInvalidRequest},
                                                           {"a^b", Errc::kInvalidRequest},
                                                           {"[^\\s\\S]", Errc::kInvalidRequest},
                                                           {"\xff", Errc::kInvalidRequest}};
  for (const auto& [source, code] : cases) {
    const auto grammar = compile_regex(source);
    ASSERT_FALSE(grammar.has_value()) << source;
    EXPECT_EQ(grammar.error().code, code) << source << ": " << grammar.error().what;
  }
  EXPECT_NE(compile_regex("ab(?>c)").error().what.find("at character"), std::string::npos);
}

TEST(Gbnf, Gbnf_WhenCompiled_AcceptsTheTextsOfRoot) {
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

TEST(Gbnf, GbnfJsonGrammar_WhenCompiled_AcceptsJson) {
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

TEST(Gbnf, Gbnf_WhenLeftRecursiveOrMalformed_IsRefused) {
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
