// Goal: every keyword that is documented as honoured accepts exactly the right documents, and one
// that cannot be honoured is refused by name and place. Method: for each keyword a schema with
// documents that satisfy it and documents that do not, matched byte by byte; documents are written
// in the form that docs/use/structured-output.md describes.

#include <gtest/gtest.h>

#include "support.h"

namespace holdfast::grammar::tests::json_schema_test {
namespace {

void check_refused(Errc code, const std::string& schema, const std::vector<std::string>& words) {
  const auto grammar = compile_json_schema(schema);
  ASSERT_FALSE(grammar.has_value()) << schema;
  EXPECT_EQ(grammar.error().code, code) << grammar.error().what;
  for (const std::string& word : words) {
    EXPECT_NE(grammar.error().what.find(word), std::string::npos)
        << schema << ": " << grammar.error().what << "; expected in it: " << word;
  }
}

TEST(JsonSchema, TypeKeyword_WhenCompiled_AcceptsItsTypesAlone) {
  check({{R"({"type":"null"})", {"null"}, {"nul", "0", "\"\"", "{}"}},
         {R"({"type":"boolean"})", {"true", "false"}, {"null", "1", "True"}},
         {R"({"type":"integer"})",
          {"0", "-0", "7", "-12", "123456789012345678"},
          {"01", "1.5", "1.0", "1e3", "+1", "", "-", "1234567890123456789"}},
         {R"({"type":"number"})",
          {"0", "-1.5", "1e5", "2E-07", "3.25e+10", "0.001"},
          {".5", "5.", "01", "1e", "1e999", "NaN", "0x1"}},
         {R"({"type":"string"})",
          {R"("")", R"("abc")", R"("\"\\\/\b\f\n\r\t")", R"("\u00e9")", "\"é世😀\"",
           R"("\ud83d\ude00")"},
          {"abc", R"("a)", "\"a\nb\"", R"("\x")", R"("\ud83d")", R"("\ude00")", "\"\x80\"",
           "\"\xC3\""}},
         {R"({"type":"array"})", {"[]", "[1, \"a\",null]", "[[],[{}]]"}, {"[1,]", "[,1]", "{}"}},
         {R"({"type":"object"})",
          {"{}", R"({"a":1})", R"({"a": {"b":[]}, "c":null})"},
          {R"({"a"})", R"({a:1})", R"({"a":1,})", "[]"}},
         {R"({"type":["string","null"]})", {"null", R"("x")"}, {"1", "{}"}},
         {R"({"type":"string","nullable":true})", {"null", R"("x")"}, {"1"}},
         {"true", {"1", "null", R"({"a":[1]})", R"("x")"}, {"", "x"}},
         {"{}", {"1", "null", R"({"a":[1]})"}, {"", "x"}}});
}

TEST(JsonSchema, Whitespace_WhenBeyondTheBound_IsRejected) {
  const char* schema = R"({"type":"object","properties":{"a":{"type":"array"},"b":{}}})";
  std::string deep = "{\n" + std::string(32, ' ') + "\"a\": [\n\t\t1,\n\t\t2\n\t], \"b\":1\n}";
  check({{schema,
          {R"({"a":[],"b":1})", R"({ "a": [ 1, 2 ], "b": 1 })", deep.c_str()},
          {" {}", "{} ", "{  }", R"({"a" :[]})", R"({"a":  []})", "{\n\n}", R"({"a":[1 ,2]})",
           R"({"a":[],  "b":1})"}}});
  const std::string too_deep = "{\n" + std::string(33, ' ') + "\"b\":1}";
  EXPECT_FALSE(begins(compile_json_schema(schema).value(), too_deep));
}

TEST(JsonSchema, EnumAndConst_WhenCompiled_AcceptListedValuesAlone) {
  check(
      {{R"({"enum":["a","b c",1,-2.5,null,true,[1,"x"],{"k":"v"},"\"q\"\n"]})",
        {R"("a")", R"("b c")", "1", "-2.5", "null", "true", R"([1, "x"])", R"({"k": "v"})",
         R"("\"q\"\n")"},
        {R"("ab")", "2", "false", R"([1])", R"({"k":"w"})", R"("b")"}},
       {R"({"const":"only"})", {R"("only")"}, {R"("onl")", "null"}},
       {R"({"const":{"a":[{}]}})", {R"({"a":[{}]})", "{\n  \"a\": [ {} ]\n}"}, {R"({"a":[]})"}},
       {R"({"enum":[1,2,"x",null],"type":"integer"})", {"1", "2"}, {R"("x")", "null"}},
       {R"({"enum":[1,5,9],"minimum":2,"exclusiveMaximum":9})", {"5"}, {"1", "9"}},
       {R"({"enum":["ab","abc","xyz"],"pattern":"^a","minLength":3})", {R"("abc")"}, {R"("ab")"}},
       {R"({"enum":[[1],[1,1],[2]],"items":{"const":1},"uniqueItems":true})",
        {"[1]"},
        {"[1,1]", "[2]"}},
       {R"({"enum":[{"a":1},{"a":"x"},{}],"required":["a"],"properties":{"a":{"type":"integer"}}})",
        {R"({"a":1})"},
        {R"({"a":"x"})", "{}"}},
       {R"({"enum":[3,4,6.5],"multipleOf":1.5})", {"3"}, {"4", "6.5"}}});
}

TEST(JsonSchema, StringLengthAndPattern_WhenCompiled_AreEnforced) {
  check({{R"({"type":"string","minLength":2})",
          {R"("ab")", R"("abc")", "\"é世\""},
          {R"("a")", R"("é")"}},
         {R"({"type":"string","maxLength":2})",
          {R"("")", R"("ab")", "\"世界\"", R"("\n\n")"},
          {R"("abc")", "\"世界人\"", R"("\n\n\n")"}},
         {R"({"type":"string","minLength":2,"maxLength":3})",
          {R"("ab")", R"("abc")"},
          {R"("a")", R"("abcd")"}},
         {R"({"type":"string","pattern":"^a+b$"})",
          {R"("ab")", R"("aaab")"},
          {R"("b")", R"("abc")", R"("cab")"}},
         {R"({"type":"string","pattern":"b"})", {R"("b")", R"("abc")"}, {R"("ac")", R"("")"}},
         {R"({"type":"string","pattern":"^(a|b)$|c"})",
          {R"("a")", R"("b")", R"("xcx")"},
          {R"("ab")"}},
         {R"({"type":"string","pattern":"^\"\\\\$"})", {R"("\"\\")"}, {R"("\"")"}},
         {R"({"type":"string","pattern":"^\\n$"})", {R"("\n")"}, {R"("n")"}},
         {R"({"type":"string","pattern":"^[a-c]*$","minLength":2,"maxLength":2})",
          {R"("ab")", R"("cc")"},
          {R"("a")", R"("abc")", R"("ad")"}},
         {R"({"allOf":[{"type":"string","pattern":"a"},{"pattern":"b"}]})",
          {R"("ab")", R"("xbya")"},
          {R"("a")", R"("b")"}}});
}

TEST(JsonSchema, FormatKeyword_WhenSupported_IsEnforced) {
  check(
      {{R"({"type":"string","format":"date"})",
        {R"("2024-02-29")", R"("1999-12-31")", R"("2000-02-29")"},
        {R"("2023-02-29")", R"("1900-02-29")", R"("2024-13-01")", R"("2024-04-31")",
         R"("24-01-01")"}},
       {R"({"type":"string","format":"time"})",
        {R"("23:59:59Z")", R"("01:02:03.5+02:00")"},
        {R"("24:00:00Z")", R"("1:2:3Z")"}},
       {R"({"type":"string","format":"date-time"})",
        {R"("2024-02-29T12:00:00Z")"},
        {R"("2024-02-29 12:00:00Z")", R"("2024-02-29")"}},
       {R"({"type":"string","format":"duration"})",
        {R"("P1Y2M3DT4H5M6S")", R"("PT5M")", R"("P2W")"},
        {R"("P")", R"("5M")", R"("P1S")"}},
       {R"({"type":"string","format":"uuid"})",
        {R"("123e4567-e89b-12d3-a456-426614174000")"},
        {R"("123e4567e89b12d3a456426614174000")"}},
       {R"({"type":"string","format":"ipv4"})",
        {R"("127.0.0.1")", R"("255.255.255.255")"},
        {R"("256.0.0.1")", R"("01.2.3.4")", R"("1.2.3")"}},
       {R"({"type":"string","format":"ipv6"})",
        {R"("::")", R"("::1")", R"("fe80::1:2")", R"("1:2:3:4:5:6:7:8")"},
        {R"(":1")", R"("1:2:3")", R"("1::2::3")", R"("1:2:3:4:5:6:7:8:9")"}},
       {R"({"type":"string","format":"email"})",
        {R"("a.b+c@example.org")"},
        {R"("a@")", R"("@b")", R"("a b@c")"}},
       {R"({"type":"string","format":"hostname"})",
        {R"("a-b.example")"},
        {R"("-a")", R"("a..b")", R"("xn--a")"}},
       {R"({"type":"string","format":"uri"})",
        {R"("https://example.org:80/a/b?c=d#e")"},
        {R"("example.org")", R"("http://")"}},
       {R"({"type":"integer","format":"int32"})", {"2147483647", "-2147483648"}, {"2147483648"}}});
}

TEST(JsonSchema, IntegerBounds_WhenCompiled_AreEnforced) {
  check({{R"({"type":"integer","minimum":3,"maximum":21})",
          {"3", "9", "10", "21"},
          {"2", "22", "0", "-3", "03", "100"}},
         {R"({"type":"integer","exclusiveMinimum":-5,"exclusiveMaximum":5})",
          {"-4", "0", "4"},
          {"-5", "5", "-10"}},
         {R"({"type":"integer","minimum":-120,"maximum":-7})",
          {"-120", "-99", "-7"},
          {"-121", "-6", "0", "7"}},
         {R"({"type":"integer","minimum":1000})", {"1000", "99999"}, {"999", "-5000"}},
         {R"({"type":"integer","maximum":-1})", {"-1", "-500"}, {"0", "1"}},
         {R"({"type":"integer","minimum":2.5,"maximum":4.5})", {"3", "4"}, {"2", "5"}},
         {R"({"type":"integer","minimum":5,"exclusiveMinimum":true})", {"6"}, {"5"}},
         {R"({"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807})",
          {"9223372036854775807", "-9223372036854775808", "0"},
          {"9223372036854775808", "-9223372036854775809"}},
         {R"({"type":"integer","multipleOf":7})", {"0", "7", "-14", "700"}, {"1", "8", "-1"}},
         {R"({"type":"integer","multipleOf":7,"minimum":50,"maximum":60})",
          {"56"},
          {"49", "63", "55"}},
         {R"({"allOf":[{"multipleOf":4},{"multipleOf":6}],"type":"integer"})",
          {"12", "-24"},
          {"4", "6"}}});
}

TEST(JsonSchema, NumberBounds_WhenCompiled_AreEnforced) {
  check({{R"({"type":"number","minimum":0,"maximum":1})",
          {"0", "0.5", "1", "1.0", "0.0"},
          {"1.1", "-0.1", "2", "1e0", "-0"}},
         {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})",
          {"0.1", "0.001"},
          {"0", "1", "0.0", "1.0"}},
         {R"({"type":"number","minimum":-1.25,"maximum":2.5})",
          {"-1.25", "-1.2", "-0.5", "0", "2.5", "2.49"},
          {"-1.26", "2.51", "3", "-2"}},
         {R"({"type":"number","exclusiveMinimum":9.99})",
          {"10", "9.991", "123.5"},
          {"9.99", "9.98", "9.990"}},
         {R"({"type":"number","maximum":-0.5})", {"-0.5", "-0.51", "-7"}, {"-0.49", "0", "0.5"}},
         {R"({"type":"number","multipleOf":0.25})",
          {"0", "1", "0.25", "-1.5", "2.75"},
          {"0.3", "0.125"}},
         {R"({"type":"number","multipleOf":0.01,"minimum":0})", {"19.99", "0.01", "5"}, {"0.001"}},
         {R"({"type":"number","multipleOf":3})", {"3", "-9", "0"}, {"4", "3.5", "3.0"}}});
}

TEST(JsonSchema, ArrayKeywords_WhenCompiled_AreEnforced) {
  check(
      {{R"({"type":"array","items":{"type":"integer"}})",
        {"[]", "[1]", "[1, 2]"},
        {"[\"a\"]", "[1,null]"}},
       {R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})",
        {"[1,2]", "[1,2,3]"},
        {"[]", "[1]", "[1,2,3,4]"}},
       {R"({"type":"array","minItems":1})", {"[1]", "[null,{}]"}, {"[]"}},
       {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
       {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}]})",
        {"[]", "[1]", R"([1,"a"])"},
        {R"(["a"])", R"([1,"a",2])"}},
       {R"({"type":"array","prefixItems":[{"type":"integer"}],"items":{"type":"string"},)"
        R"("minItems":1})",
        {"[1]", R"([1,"a","b"])"},
        {"[]", "[1,2]"}},
       {R"({"type":"array","prefixItems":[{"type":"integer"}],"items":false})",
        {"[]", "[1]"},
        {"[1,1]"}},
       {R"({"type":"array","items":[{"type":"integer"}],"additionalItems":{"type":"null"}})",
        {"[1,null,null]"},
        {"[1,1]"}},
       {R"({"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true,"minItems":1})",
        {R"(["a"])", R"(["c","a"])", R"(["a","b","c"])"},
        {"[]", R"(["a","a"])", R"(["a","b","a"])"}},
       {R"({"type":"array","items":{"type":"boolean"},"uniqueItems":true})",
        {"[]", "[true,false]"},
        {"[true,true]"}},
       {R"({"type":"array","items":{"type":"string"},"uniqueItems":true,"maxItems":1})",
        {"[]", R"(["x"])"},
        {R"(["x","y"])"}},
       {R"({"type":"array","items":{"type":"integer"},"contains":{"minimum":10}})",
        {"[10]", "[1,12,3]"},
        {"[]", "[1,2]"}},
       {R"({"type":"array","items":{"type":"integer"},"contains":{"minimum":10},"minContains":2})",
        {"[10,1,11]"},
        {"[10]", "[1,12,3]"}}});
}

TEST(JsonSchema, ObjectKeywords_WhenCompiled_AreEnforced) {
  check({{R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},)"
          R"("required":["a","b"],"additionalProperties":false})",
          {R"({"a":1,"b":"x"})", R"({"a": 1, "b": "x"})"},
          {"{}", R"({"a":1})", R"({"b":"x","a":1})", R"({"a":1,"b":"x","c":1})",
           R"({"a":"1","b":"x"})"}},
         {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"required":["b"]})",
          {R"({"b":1})", R"({"a":1,"b":1})", R"({"b":1,"c":1})", R"({"a":1,"b":1,"c":1})"},
          {"{}", R"({"a":1})", R"({"c":1,"b":1})", R"({"b":1,"b":1})", R"({"b":1,"d":1})"}},
         {R"({"type":"object","properties":{"a":{"type":"integer"}},)"
          R"("additionalProperties":{"type":"string"}})",
          {"{}", R"({"a":1})", R"({"x":"y"})", R"({"a":1,"x":"y","z":""})", R"({"aa":"x"})"},
          {R"({"a":"s"})", R"({"x":1})", R"({"x":"y","a":1})", R"({"\u0061":"s"})"}},
         {R"({"type":"object","additionalProperties":{"type":"integer"}})",
          {"{}", R"({"é":1,"b":2})"},
          {R"({"a":"b"})"}},
         {R"({"type":"object","required":["x"]})",
          {R"({"x":1})", R"({"x":[],"y":2})"},
          {"{}", R"({"y":1})"}},
         {R"({"type":"object","patternProperties":{"^n_":{"type":"integer"},)"
          R"("_s$":{"type":"string"}}})",
          {"{}", R"({"n_a":1})", R"({"a_s":"x"})", R"({"n_a":1,"a_s":"x"})"},
          {R"({"n_a":"x"})", R"({"other":1})", R"({"n_s":1})", R"({"n_s":"x"})"}},
         {R"({"type":"object","patternProperties":{"^n_":{"type":"integer"}},)"
          R"("additionalProperties":{"type":"boolean"}})",
          {R"({"n_a":1,"x":true})"},
          {R"({"n_a":true})", R"({"x":1})"}},
         {R"({"type":"object","properties":{"n_a":{"minimum":5}},)"
          R"("patternProperties":{"^n_":{"type":"integer"}}})",
          {R"({"n_a":5,"n_b":1})"},
          {R"({"n_a":4})", R"({"n_a":"x"})"}},
         {R"({"type":"object","propertyNames":{"pattern":"^[a-z]+$","maxLength":3},)"
          R"("additionalProperties":{}})",
          {R"({"abc":1})", "{}"},
          {R"({"abcd":1})", R"({"A":1})"}},
         {R"({"type":"object","propertyNames":{"enum":["a","b"]},)"
          R"("additionalProperties":{"type":"null"}})",
          {R"({"b":null})"},
          {R"({"c":null})"}},
         {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"minProperties":2})",
          {R"({"a":1,"c":1})", R"({"a":1,"b":1,"c":1})"},
          {"{}", R"({"b":1})"}},
         {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"maxProperties":1})",
          {"{}", R"({"c":1})"},
          {R"({"a":1,"c":1})"}},
         {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"maxProperties":0})",
          {"{}"},
          {R"({"a":1})"}},
         {R"({"type":"object","additionalProperties":{"type":"integer"},"minProperties":1,)"
          R"("maxProperties":2})",
          {R"({"a":1})", R"({"a":1,"b":1})"},
          {"{}", R"({"a":1,"b":1,"c":1})"}},
         {R"({"type":"object","properties":{"never":false,"b":{}}})",
          {"{}", R"({"b":1})"},
          {R"({"never":1})"}},
         {R"({"type":"object","properties":{"a\"b":{},"ü":{}}})",
          {R"({"a\"b":1,"ü":2})"},
          {R"({"a":1})"}}});
}

TEST(JsonSchema, AnyOfAllOfOneOf_WhenCombined_AreEnforced) {
  check(
      {{R"({"anyOf":[{"type":"string"},{"type":"integer","minimum":5}]})",
        {R"("x")", "5"},
        {"4", "null"}},
       {R"({"anyOf":[{"required":["a"]},{"required":["b"]}],"type":"object",)"
        R"("properties":{"a":{},"b":{}}})",
        {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"},
        {"{}"}},
       {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},)"
        R"({"properties":{"b":{"type":"string"}},"required":["b"]}]})",
        {R"({"a":1,"b":"x"})"},
        {R"({"a":1})", R"({"b":"x"})", R"({"a":1,"b":2})"}},
       {R"({"allOf":[{"properties":{"a":{"minimum":3}}},{"properties":{"a":{"maximum":5}}}],)"
        R"("type":"object","properties":{"a":{"type":"integer"}}})",
        {R"({"a":4})", "{}"},
        {R"({"a":2})", R"({"a":6})"}},
       {R"({"allOf":[{"properties":{"a":{}},"additionalProperties":false},)"
        R"({"properties":{"b":{}}}],"type":"object"})",
        {"{}", R"({"a":1})"},
        {R"({"b":1})"}},
       {R"({"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},)"
        R"("x":{"type":"integer"}},"required":["kind","x"]},{"type":"object",)"
        R"("properties":{"kind":{"const":"b"}},"required":["kind"]}]})",
        {R"({"kind":"a","x":1})", R"({"kind":"b"})"},
        {R"({"kind":"a"})", R"({"kind":"c"})"}},
       {R"({"oneOf":[{"type":"integer","maximum":5},{"type":"integer","minimum":6},)"
        R"({"type":"string"}]})",
        {"5", "6", R"("x")"},
        {"null"}},
       {R"({"oneOf":[{"type":"number","maximum":5},{"type":"number","exclusiveMinimum":5}]})",
        {"5", "5.5"},
        {"null"}},
       {R"({"type":"object","properties":{"p":{"$ref":"#/$defs/P"}},"required":["p"],)"
        R"("$defs":{"P":{"type":"integer"}}})",
        {R"({"p":1})"},
        {R"({"p":"x"})"}},
       {R"({"$ref":"#/definitions/a~1b","definitions":{"a/b":{"type":"null"}}})", {"null"}, {"1"}},
       {R"({"$ref":"#/$defs/x","minimum":3,"$defs":{"x":{"type":"integer","maximum":4}}})",
        {"3", "4"},
        {"2", "5"}}});
}

TEST(JsonSchema, Ref_WhenRecursive_AcceptsNestedDocuments) {
  check({{R"({"$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},)"
          R"("next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"],)"
          R"("additionalProperties":false}},"$ref":"#/$defs/node"})",
          {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
          {R"({"v":1})", R"({"v":1,"next":{"v":2}})", R"({"v":1,"next":{"v":2,"next":null})"}},
         {R"({"type":"object","properties":{"c":{"type":"array","items":{"$ref":"#"}}},)"
          R"("required":["c"]})",
          {R"({"c":[]})", R"({"c":[{"c":[]},{"c":[{"c":[]}]}]})"},
          {R"({"c":[{}]})", R"({"c":[{"c":[]])"}},
         // Only one of two ways can ever end: the other is not offered at all.
         {R"({"$defs":{"loop":{"type":"object","properties":{"l":{"$ref":"#/$defs/loop"}},)"
          R"("required":["l"]}},"anyOf":[{"$ref":"#/$defs/loop"},{"type":"null"}]})",
          {"null"},
          {"{"}}});
  const auto grammar = compile_json_schema(
      R"({"$defs":{"loop":{"type":"object","properties":{"l":{"$ref":"#/$defs/loop"}},)"
      R"("required":["l"]}},"anyOf":[{"$ref":"#/$defs/loop"},{"type":"null"}]})");
  EXPECT_FALSE(begins(grammar.value(), "{"));
  EXPECT_TRUE(begins(grammar.value(), "nul"));
}

TEST(JsonSchema, Annotations_WhenPresent_AreIgnored) {
  check({{R"({"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"urn:x","title":"t",)"
          R"("description":"d","default":5,"examples":[1],"$comment":"c","deprecated":true,)"
          R"("readOnly":true,"x-order":3,"type":"integer"})",
          {"1"},
          {R"("x")"}}});
}

TEST(JsonSchema, AnUnknownKeyword_WhenPresent_IsIgnored) {
  check({{R"({"minumum":5,"widget":{"a":[]},"type":"integer"})", {"1"}, {R"("x")"}},
         {R"({"type":"string","format":"colour","maxLength":2})", {R"("x")"}, {R"("xyz")", "1"}},
         {R"({"type":"string","contentEncoding":"base64"})", {R"("!")"}, {"1"}}});
}

TEST(JsonSchema, LenientForms_WhenUnambiguous_AreAccepted) {
  check({{R"({"type":"object","properties":null,"required":null})", {"{}", R"({"a":1})"}, {"[]"}},
         {R"({"type":"object","properties":[]})", {"{}"}, {"[]"}},
         {R"({"type":"","enum":null,"minLength":null,"anyOf":null,"not":null})", {"1", "[]"}, {}},
         {R"({"type":"STRING"})", {R"("a")"}, {"1"}},
         {R"({"type":["int","none"]})", {"1", "null"}, {"1.5", R"("a")"}},
         {R"({"type":"any"})", {"1", "{}"}, {}},
         {R"({"type":"integer","minimum":"2","maximum":"3"})", {"2", "3"}, {"1", "4"}},
         {R"({"type":"object","properties":{"a":{"required":true},"b":{"required":false}}})",
          {R"({"a":1})", R"({"a":1,"b":1})"},
          {"{}", R"({"b":1})"}}});
}

TEST(JsonSchema, Ref_WithAnchorsAndIds_ResolvesInsideTheDocument) {
  check({{R"({"$id":"https://x.example/s","$defs":{"n":{"$anchor":"num","type":"integer"}},)"
          R"("items":[{"$ref":"#num"},{"$ref":"https://x.example/s#/$defs/n"},{"$ref":"s#num"}]})",
          {"[1,2,3]"},
          {R"(["x"])", R"([1,"x"])", R"([1,2,"x"])"}},
         {R"({"$id":"https://x.example/s","$ref":"p","$defs":{"p":{"$id":"p","$ref":"#/$defs/q",)"
          R"("$defs":{"q":{"type":"null"}}},"q":{"type":"integer"}}})",
          {"null"},
          {"1"}},
         {R"({"$ref":"#n","definitions":{"a":{"$id":"#n","type":"null"}}})", {"null"}, {"1"}},
         {R"({"$dynamicAnchor":"t","type":"object","properties":{"c":{"$dynamicRef":"#t"}}})",
          {"{}", R"({"c":{"c":{}}})"},
          {R"({"c":1})"}},
         {R"({"properties":{"c":{"$recursiveRef":"#"}},"type":"object"})",
          {R"({"c":{}})"},
          {R"({"c":1})"}},
         {R"({"properties":{"a":{"type":"string","maxLength":1},"b":{"$ref":"#/properties/a"}},)"
          R"("type":"object"})",
          {R"({"b":"x"})"},
          {R"({"b":"xy"})"}}});
  check_refused(Errc::kUnsupported,
                R"({"$dynamicRef":"#t","$defs":{"a":{"$id":"a","$dynamicAnchor":"t"},)"
                R"("b":{"$id":"b","$dynamicAnchor":"t"}}})",
                {"'$dynamicRef'"});
  check_refused(Errc::kInvalidRequest, R"({"$ref":"#nowhere"})", {"'$ref'"});
}

TEST(JsonSchema, UnevaluatedKeywords_WhenCompiled_AreEnforced) {
  check({{R"({"allOf":[{"properties":{"a":{}}}],"properties":{"b":{}},"type":"object",)"
          R"("unevaluatedProperties":false})",
          {"{}", R"({"b":1,"a":1})"},
          {R"({"c":1})"}},
         {R"({"type":"object","unevaluatedProperties":false})", {"{}"}, {R"({"c":1})"}},
         {R"({"properties":{"a":{}},"type":"object","unevaluatedProperties":{"type":"null"}})",
          {R"({"a":1})", R"({"a":1,"x":null})"},
          {R"({"x":1})"}},
         {R"({"allOf":[{"additionalProperties":{"type":"null"}}],"type":"object",)"
          R"("unevaluatedProperties":false})",
          {R"({"x":null})"},
          {R"({"x":1})"}},
         {R"({"allOf":[{"properties":{"a":{}},"unevaluatedProperties":false},)"
          R"({"properties":{"b":{}}}],"type":"object"})",
          {R"({"a":1})"},
          {R"({"b":1})"}},
         {R"({"allOf":[{"prefixItems":[{},{}]}],"type":"array","unevaluatedItems":false})",
          {"[]", "[1,2]"},
          {"[1,2,3]"}}});
}

TEST(JsonSchema, MinAndMaxContains_WhenCompiled_AreEnforced) {
  check({{R"({"type":"array","items":{"type":"integer"},"contains":{"minimum":10},)"
          R"("maxContains":2})",
          {"[10]", "[1,10,2,11,3]"},
          {"[]", "[1]", "[10,11,12]"}},
         {R"({"type":"array","contains":{"type":"null"},"minContains":0,"maxContains":1})",
          {"[]", "[1]", "[1,null,2]"},
          {"[null,null]"}},
         {R"({"type":"array","not":{"contains":{"const":1},"minContains":2}})",
          {"[]", "[1]", "[0,1]"},
          {"[1,1]", "[1,0,1]"}}});
}

TEST(JsonSchema, UniqueItems_WhenCompiled_IsEnforced) {
  check({{R"({"type":"array","items":{"type":"string"},"uniqueItems":true})",
          {"[]", R"(["x","a"])", R"(["tea","milk","apple"])"},
          {R"(["x","x"])", R"(["apple","apple"])"}},
         {R"({"type":"array","items":{"type":"string","format":"date"},"uniqueItems":true})",
          {R"(["2024-01-01","2024-01-02"])"},
          {R"(["2024-01-01","2024-01-01"])"}},
         {R"({"type":"array","items":{"type":"number"},"uniqueItems":true})",
          {"[-1,0.5,2,5,10,50,500,5000]"},
          {"[2,2.0]", "[0,-0]", "[1,1]"}},
         {R"({"type":"array","items":{},"uniqueItems":true})",
          {R"([null,true,{},[]])"},
          {"[{},{}]", "[true,true]", "[[1],[1]]"}},
         {R"({"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"}},)"
          R"("required":["id"]},"uniqueItems":true})",
          {R"([{"id":1},{"id":5}])"},
          {R"([{"id":1},{"id":1}])"}},
         {R"({"type":"array","items":{"enum":["a","b","c","d","e","f","g","h","i","j"]},)"
          R"("uniqueItems":true,"minItems":1,"maxItems":3})",
          {R"(["a"])", R"(["b","d","j"])"},
          {"[]", R"(["a","a"])", R"(["a","b","c","d"])", R"(["d","b"])"}},
         {R"({"type":"array","items":{"enum":["a","b","c","d","e","f","g","h","i","j"]},)"
          R"("uniqueItems":true,"minItems":2})",
          {R"(["a","b"])", R"(["a","b","c","d","e","f","g","h","i","j"])"},
          {R"(["a"])", R"(["a","a"])"}}});
}

TEST(JsonSchema, LengthBounds_WhenLarge_AreExact) {
  const auto text = [](std::size_t n) { return '"' + std::string(n, 'x') + '"'; };
  const auto grammar =
      compile_json_schema(R"({"minLength":300,"maxLength":40000,"type":"string"})");
  ASSERT_TRUE(grammar.has_value()) << grammar.error().what;
  for (const std::size_t n : {300, 301, 16'684, 16'685, 39'999, 40'000}) {
    EXPECT_TRUE(accepts(*grammar, text(n))) << n;
  }
  for (const std::size_t n : {0, 1, 127, 128, 299, 40'001, 50'000}) {
    EXPECT_FALSE(accepts(*grammar, text(n))) << n;
  }
  const auto list = [](std::size_t n) {
    std::string out = "[";
    for (std::size_t i = 0; i < n; ++i) out += i > 0 ? ", 1" : "1";
    return out + "]";
  };
  const auto array =
      compile_json_schema(R"({"type":"array","items":{"const":1},"minItems":257,"maxItems":1000})");
  ASSERT_TRUE(array.has_value()) << array.error().what;
  for (const std::size_t n : {257, 600, 1'000}) EXPECT_TRUE(accepts(*array, list(n))) << n;
  for (const std::size_t n : {0, 1, 256, 1'001}) EXPECT_FALSE(accepts(*array, list(n))) << n;
}

TEST(JsonSchema, Keyword_WhenUnsupported_IsRefusedWithItsPointer) {
  const Errc no = Errc::kUnsupported;
  check_refused(no, R"({"type":"string","not":{"format":"date"}})", {"'format'", "#/not"});
  check_refused(no, R"({"type":"integer","not":{"multipleOf":2}})", {"'multipleOf'", "#/not"});
  check_refused(no, R"({"type":"integer","not":{"format":"int32"}})", {"'format'", "#/not"});
  check_refused(no,
                R"({"type":"object","properties":{"a":{"if":{"propertyNames":{"maxLength":2}},)"
                R"("else":{"required":["b"]}}}})",
                {"'propertyNames'", "#/properties/a/if"});
  check_refused(no, R"({"not":{"const":[1]}})", {"'const'", "#/not"});
  check_refused(no, R"({"type":"string","not":{"not":{"format":"date"}}})",
                {"'format'", "#/not/not"});
  check_refused(no, R"({"type":"object","not":{"additionalProperties":false}})",
                {"'additionalProperties'", "#/not"});
  check_refused(no, R"({"type":"object","not":{"patternProperties":{"^a":{"type":"null"}}}})",
                {"'patternProperties'", "#/not"});
  check_refused(no, R"({"type":"array","not":{"uniqueItems":true}})", {"'uniqueItems'", "#/not"});
  check_refused(no, R"({"type":"array","contains":{},"unevaluatedItems":false})",
                {"'unevaluatedItems'"});
  check_refused(no, R"({"type":"array","items":{},"uniqueItems":true,"minItems":9})",
                {"'uniqueItems'"});
  check_refused(no, R"({"type":"string","pattern":"(?<=a(?=b))b"})", {"'pattern'", "look behind"});
  check_refused(no, R"({"type":"string","pattern":"\\p{Nope}"})", {"'pattern'", "Nope"});
  check_refused(no, R"({"type":"string","pattern":"(a)\\1"})", {"'pattern'", "back reference"});
  check_refused(no, R"({"$ref":"https://example.org/x"})", {"'$ref'"});
  check_refused(no, R"({"oneOf":[{"type":"integer"},{"multipleOf":5}]})",
                {"'multipleOf'", "#/oneOf/1", "anyOf"});
  check_refused(no, R"({"type":"object","additionalProperties":{},"minProperties":3})",
                {"'minProperties'"});
  check_refused(no, R"({"type":"number","multipleOf":0.123456})", {"'multipleOf'"});
}

TEST(JsonSchema, Schema_WhenMalformed_IsRefused) {
  const Errc bad = Errc::kInvalidRequest;
  check_refused(bad, "", {"JSON"});
  check_refused(bad, "{", {"JSON"});
  check_refused(bad, "[]", {"object"});
  check_refused(bad, "7", {"object"});
  check_refused(bad, R"({"type":"strnig"})", {"'type'"});
  check_refused(bad, R"({"minLength":-1})", {"'minLength'"});
  check_refused(bad, R"({"pattern":"["})", {"'pattern'"});
  check_refused(bad, R"({"enum":5})", {"'enum'"});
  check_refused(bad, R"({"properties":[1]})", {"'properties'"});
  check_refused(bad, R"({"properties":{"a":null}})", {"'properties'", "#/properties/a"});
  check_refused(bad, R"({"properties":{"a":5}})", {"'properties'", "#/properties/a"});
  check_refused(bad, R"({"anyOf":[]})", {"'anyOf'"});
  check_refused(bad, R"({"$ref":"#/nowhere"})", {"'$ref'"});
  check_refused(bad, R"({"a":1,"a":2})", {"twice"});
  check_refused(bad, R"({"multipleOf":0})", {"'multipleOf'"});
  check_refused(bad, R"({"not":5})", {"'not'"});
  check_refused(bad, R"({"if":true,"then":"x"})", {"'then'"});
  check_refused(bad, R"({"dependentRequired":{"a":[1]}})", {"'dependentRequired'"});
  check_refused(bad, R"({"dependentSchemas":{"a":1}})", {"'dependentSchemas'"});
  check_refused(bad, R"({"not":{"$ref":"#"}})", {"'$ref'", "without end"});
}

TEST(JsonSchema, Schema_WhenUnsatisfiable_IsRefused) {
  for (const char* schema :
       {"false", R"({"enum":[]})", R"({"type":"string","enum":[1]})",
        R"({"allOf":[{"type":"string"},{"type":"integer"}]})",
        R"({"type":"integer","minimum":5,"maximum":4})",
        R"({"type":"integer","exclusiveMinimum":5,"exclusiveMaximum":6})",
        R"({"type":"string","pattern":"^a$","minLength":2})",
        R"({"type":"array","items":false,"minItems":1})",
        R"({"type":"object","properties":{"a":false},"required":["a"]})",
        R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})"}) {
    check_refused(Errc::kInvalidRequest, schema, {"no text satisfies"});
  }
  check_refused(Errc::kInvalidRequest, R"({"$ref":"#"})", {"refers to itself"});
  check_refused(Errc::kInvalidRequest, R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})",
                {"refers to itself"});
}

}  // namespace
}  // namespace holdfast::grammar::tests::json_schema_test
