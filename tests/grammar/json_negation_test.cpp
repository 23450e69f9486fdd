// Goal: "not", "if", "dependent…" and "oneOf" with schemas that overlap accept exactly the right
// documents. Method: as json_schema_test, schemas with documents that satisfy them and that do not.

#include <gtest/gtest.h>

#include "support.h"

namespace holdfast::grammar::tests::json_negation_test {
namespace {

TEST(JsonNegation, NotKeyword_WithScalars_AcceptsTheComplement) {
  check({{R"({"not":{"type":["object","array","string"]}})", {"1", "null", "1.5"}, {"{}", "[]"}},
         {R"({"type":"number","not":{"type":"integer"}})",
          {"0.5", "-1.50", "3.0000000001"},
          {"5", "-0", "1.0", "1.", "10e0"}},
         {R"({"type":"string","not":{"const":"ab"}})",
          {R"("")", R"("a")", R"("abc")"},
          {R"("ab")", R"("\u0061b")", "1"}},
         {R"({"type":["string","boolean","null"],"not":{"enum":["x","é",true,null]}})",
          {"false", R"("y")"},
          {"true", "null", R"("x")", "\"é\"", R"("\u00e9")"}},
         {R"({"type":"number","not":{"enum":[0,1.5,-3]}})",
          {"1", "1.4", "1.51", "-2", "-3.5", "0.1"},
          {"0", "-0", "0.0", "1.5", "1.50", "-3", "-3.0"}},
         {R"({"type":"integer","not":{"minimum":5,"maximum":9}})", {"4", "10"}, {"5", "9", "4.5"}},
         {R"({"type":"integer","not":{"exclusiveMinimum":5}})", {"5", "-9"}, {"6"}},
         {R"({"type":"string","not":{"minLength":2,"maxLength":3}})",
          {R"("a")", R"("abcd")"},
          {R"("ab")", R"("abc")"}},
         {R"({"type":"string","not":{"pattern":"^a"}})", {R"("ba")", R"("")"}, {R"("ab")"}},
         {R"({"type":"string","not":{"not":{"pattern":"^a"}}})", {R"("ab")"}, {R"("ba")"}},
         {R"({"type":"string","not":{"not":{"const":"ab"}}})", {R"("ab")"}, {R"("ba")"}},
         {R"({"type":"string","not":{"anyOf":[{"const":"a"},{"maxLength":0}]}})",
          {R"("b")"},
          {R"("a")", R"("")"}},
         {R"({"type":"integer","not":{"allOf":[{"minimum":3},{"maximum":5}]}})",
          {"2", "6"},
          {"3", "5"}},
         {R"({"$ref":"#/$defs/a","not":{"$ref":"#/$defs/b"},)"
          R"("$defs":{"a":{"enum":[1,2,"x"]},"b":{"enum":[2,"x","y"]}}})",
          {"1"},
          {"2", R"("x")", R"("y")"}}});
}

TEST(JsonNegation, NotKeyword_WithObjects_AcceptsTheComplement) {
  check({{R"({"type":"object","not":{"required":["a"]}})",
          {"{}", R"({"b":1})"},
          {R"({"a":1})", R"({"b":1,"a":2})", R"({"\u0061":1})"}},
         {R"({"properties":{"a":{},"b":{}},"type":"object","not":{"required":["a","b"]}})",
          {"{}", R"({"a":1})", R"({"b":1})"},
          {R"({"a":1,"b":1})", R"({"c":1})"}},
         {R"({"type":"object","not":{"anyOf":[{"required":["a"]},{"required":["b"]}]}})",
          {R"({"c":1})"},
          {R"({"a":1})", R"({"b":1})"}},
         {R"({"properties":{"a":{"type":"integer"},"b":{}},"type":"object",)"
          R"("not":{"properties":{"a":{"const":1}}}})",
          {R"({"a":2})", R"({"a":2,"b":0})"},
          {"{}", R"({"a":1})", R"({"b":0})", R"({"a":2,"c":0})"}},
         {R"({"properties":{"a":{"properties":{"b":{}}}},"required":["a"],"type":"object",)"
          R"("not":{"properties":{"a":{"properties":{"b":{"type":"string"}}}}}})",
          {R"({"a":{"b":1}})"},
          {R"({"a":{"b":"x"}})", R"({"a":{}})", R"({"a":1})"}},
         {R"({"type":"object","not":{"minProperties":1}})", {"{}"}, {R"({"a":1})"}},
         {R"({"type":"object","not":{"const":{}}})", {R"({"a":1})"}, {"{}"}},
         {R"({"type":"object","not":{"maxProperties":0}})", {R"({"a":1})"}, {"{}"}}});
}

TEST(JsonNegation, NotKeyword_WithArrays_AcceptsTheComplement) {
  check(
      {{R"({"type":"array","not":{"items":{"type":"string"}}})",
        {"[1]", R"(["a", 1])"},
        {"[]", R"(["a"])"}},
       {R"({"type":"array","not":{"contains":{"const":1}}})", {"[]", "[2,3]"}, {"[1]", "[2,1]"}},
       {R"({"type":"array","not":{"prefixItems":[{"const":1},{"const":2}]}})",
        {"[0]", "[1,3]", "[2,2,2]"},
        {"[]", "[1]", "[1,2]", "[1,2,3]"}},
       {R"({"type":"array","not":{"prefixItems":[true],"items":false}})", {"[1,2]"}, {"[]", "[1]"}},
       {R"({"type":"array","not":{"const":[]}})", {"[1]"}, {"[]"}},
       {R"({"type":"array","items":{"type":"null"},"not":{"minItems":2,"maxItems":2}})",
        {"[]", "[null]", "[null,null,null]"},
        {"[null,null]"}}});
}

TEST(JsonNegation, IfThenElse_WhenCompiled_AcceptsTheRightDocuments) {
  const char* kinds = R"({"type":"object","properties":{"kind":{"enum":["p","q"]},"x":{},"y":{}},)"
                      R"("required":["kind"],)"
                      R"("if":{"properties":{"kind":{"const":"p"}}},"then":{"required":["x"]},)"
                      R"("else":{"required":["y"],"properties":{"x":false}}})";
  check(
      {{kinds,
        {R"({"kind":"p","x":1})", R"({"kind":"p","x":1,"y":1})", R"({"kind":"q","y":1})"},
        {R"({"kind":"p"})", R"({"kind":"p","y":1})", R"({"kind":"q","x":1})", R"({"kind":"q"})",
         R"({"kind":"q","x":1,"y":1})", R"({"kind":"p","x":1,"z":1})"}},
       {R"({"type":"integer","if":{"maximum":3},"then":{"minimum":0},"else":{"multipleOf":10}})",
        {"0", "3", "20"},
        {"-1", "4", "15"}},
       {R"({"type":"integer","if":{"maximum":3},"else":{"maximum":9}})", {"-5", "9"}, {"10"}},
       {R"({"type":"integer","then":{"maximum":3}})", {"5"}, {}},
       {R"({"type":"string","if":false,"then":{"maxLength":0},"else":{"maxLength":1}})",
        {R"("a")"},
        {R"("ab")"}},
       {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},)"
        R"("dependentRequired":{"a":["b","c"]}})",
        {"{}", R"({"b":1})", R"({"a":1,"b":1,"c":1})"},
        {R"({"a":1})", R"({"a":1,"b":1})"}},
       {R"({"type":"object","dependentSchemas":{"a":{"required":["b"]},"c":{"maxProperties":1}}})",
        {"{}", R"({"z":1})", R"({"c":1})", R"({"a":1,"b":1})"},
        {R"({"a":1})", R"({"c":1,"z":1})"}},
       {R"({"oneOf":[{"type":"integer"},{"minimum":5,"type":"number"}]})",
        {"1", "5.5"},
        {"5", "4.5"}},
       {R"({"oneOf":[{"type":"string","maxLength":3},{"type":"string","minLength":2},)"
        R"({"const":"ab"}]})",
        {R"("a")", R"("abcd")"},
        {R"("ab")", R"("abc")"}}});
}

}  // namespace
}  // namespace holdfast::grammar::tests::json_negation_test
