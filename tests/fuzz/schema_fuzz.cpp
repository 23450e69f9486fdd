// Goal: no JSON schema of a request crashes the compiler of grammars or makes one that leads
// nowhere, and every refusal has a reason. Method: the bytes are decisions: a schema of known
// keywords with values of all kinds, alone or as the parameters of tools; grammar_fuzz has sources
// byte by byte.

#include <cstddef>
#include <cstdint>
#include <string>

#include "shared/base/bytes.h"
#include "tests/fuzz/grammar_walk.h"
#include "tests/fuzz/json_maker.h"

namespace {

using namespace holdfast;

/// Keywords; in their values & stands for a schema.
constexpr fuzz::Member kKeywords[] = {{"type", R"("object")"},
                                      {"type", R"("string")"},
                                      {"type", R"("integer")"},
                                      {"type", R"("number")"},
                                      {"type", R"("array")"},
                                      {"type", R"(["null","boolean",~])"},
                                      {"properties", R"({"a":&,"b":&})"},
                                      {"properties", R"({"a":&,~:&})"},
                                      {"required", R"(["a"])"},
                                      {"required", R"([%~%])"},
                                      {"additionalProperties", "false"},
                                      {"additionalProperties", "&"},
                                      {"patternProperties", R"({"^a":&})"},
                                      {"propertyNames", "&"},
                                      {"minProperties", "1"},
                                      {"maxProperties", "@"},
                                      {"items", "&"},
                                      {"items", "false"},
                                      {"prefixItems", "[&,&]"},
                                      {"minItems", "2"},
                                      {"maxItems", "3"},
                                      {"contains", "&"},
                                      {"minContains", "@"},
                                      {"uniqueItems", "@"},
                                      {"minLength", "1"},
                                      {"maxLength", "4"},
                                      {"maxLength", "@"},
                                      {"pattern", R"("^a+[b-d]?$")"},
                                      {"pattern", R"("(a|b){2,3}\\d\\u00e9.")"},
                                      {"pattern", "~"},
                                      {"format", R"("date-time")"},
                                      {"format", R"("uuid")"},
                                      {"format", "~"},
                                      {"minimum", "-5"},
                                      {"maximum", "12.5"},
                                      {"minimum", "@"},
                                      {"maximum", "@"},
                                      {"exclusiveMinimum", "0"},
                                      {"exclusiveMaximum", "@"},
                                      {"multipleOf", "0.5"},
                                      {"multipleOf", "@"},
                                      {"enum", R"(["a",1,null,{"a":[]}])"},
                                      {"enum", "[%@%]"},
                                      {"const", "@"},
                                      {"anyOf", "[&,&]"},
                                      {"oneOf", "[&,&]"},
                                      {"allOf", "[&,&]"},
                                      {"not", "&"},
                                      {"if", "&"},
                                      {"then", "&"},
                                      {"else", "&"},
                                      {"dependentRequired", R"({"a":["b"]})"},
                                      {"dependentSchemas", R"({"a":&})"},
                                      {"unevaluatedProperties", "false"},
                                      {"$defs", R"({"d":&,"e":&})"},
                                      {"definitions", R"({"d":&})"},
                                      {"$ref", R"("#/$defs/d")"},
                                      {"$ref", R"("#")"},
                                      {"$ref", "~"},
                                      {"title", "~"},
                                      {"default", "@"},
                                      {"nullable", "true"},
                                      {"x-more", "@"}};

class SchemaMaker {
 public:
  SchemaMaker(fuzz::Choices& choices, std::string* out) : choices_(choices), out_(*out) {}

  void schema(int depth) {
    if (depth <= 0 || choices_.byte() % 16 == 15) {
      out_ += choices_.likely(4) ? "true" : "{}";
      return;
    }
    out_ += '{';
    for (unsigned n = 1 + choices_.below(4), i = 0; i < n; ++i) {
      const fuzz::Member& keyword = choices_.from(kKeywords);
      out_.append(i > 0 ? "," : "").append("\"").append(keyword.name).append("\":");
      value(keyword.value, depth);
    }
    out_ += '}';
  }

 private:
  void value(std::string_view form, int depth) {
    fuzz::JsonMaker maker(choices_, kKeywords, &out_);
    if (choices_.byte() % 16 == 15) return maker.value(2);
    for (std::size_t at; (at = form.find('&')) != std::string_view::npos;
         form.remove_prefix(at + 1)) {
      maker.expand(form.substr(0, at), 2);
      schema(depth - 1);
    }
    maker.expand(form, 2);
  }

  fuzz::Choices& choices_;
  std::string& out_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Choices choices(data, size);
  const unsigned how = choices.byte();
  std::uint64_t random = choices.byte();
  std::string source;
  SchemaMaker maker(choices, &source);
  const bool tools = how % 4 == 0;
  if (tools) {
    source = (how & 16) != 0 ? R"({"form":"hermes")" : R"({"form":"llama3")";
    if ((how & 32) != 0) source += R"(,"single":true)";
    if ((how & 64) != 0) source += R"(,"reasoning":true)";
    if ((how & 128) != 0) source += R"(,"opened":true)";
    source += R"(,"tools":[{"name":"f","parameters":)";
  }
  maker.schema(4);
  if (tools) {
    source += R"(},{"name":"g","parameters":)";
    maker.schema(2);
    source += "}]}";
  }
  const auto limits = fuzz::small_grammar();
  const auto compiled = tools ? grammar::compile_tool_call(source, limits)
                              : grammar::compile_json_schema(source, limits);
  if (compiled) {
    fuzz::walk_grammar(*compiled, random);
  } else {
    CHECK(!compiled.error().what.empty());
    CHECK(compiled.error().what.find('\n') == std::string::npos);
    CHECK(is_valid_utf8(compiled.error().what));
  }
  return 0;
}
