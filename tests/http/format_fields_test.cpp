// Goal: whatever name a server gives to the format of a text, the option is honoured or refused
// with that name, never ignored silently. Method: tables of members against the grammar that goes
// to the worker, the error's parameter and words, and the names of what is ignored.
#include "control/gateway/common/format_fields.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/gateway/anthropic/message_body.h"
#include "control/gateway/common/params.h"
#include "control/gateway/responses/response_body.h"

namespace holdfast::gateway::format_fields_test {
namespace {

using json = nlohmann::ordered_json;
using Names = std::vector<std::string>;

struct Outcome {
  bool ok = false;
  json grammar;  // null: none
  Names ignored;
  FieldError error;
};

Outcome read(bool (*parse)(const json&, const ParamLimits&, Generation*, FieldError*),
             const std::string& body) {
  Outcome out;
  Generation generation;
  json parsed;
  out.ok =
      parse_json_object(body, &parsed, &out.error) && parse(parsed, {}, &generation, &out.error);
  out.ignored = generation.ignored;
  const std::string& extra = generation.submit.sampling.extra;
  if (!extra.empty()) out.grammar = json::parse(extra)["grammar"];
  if (out.grammar.is_object()) out.grammar.erase("finish");
  return out;
}

Outcome chat(const std::string& fields) {
  return read(parse_chat,
              R"({"model":"m","messages":[{"role":"user","content":"a"}],)" + fields + "}");
}

Outcome message(const std::string& fields) {
  return read(parse_message, R"({"model":"m","max_tokens":5,"messages":[)"
                             R"({"role":"user","content":"a"}],)" +
                                 fields + "}");
}

/// Returns the outcome for a body of /v1/responses, as the chat that it becomes.
Outcome response(const std::string& fields) {
  Outcome out;
  ResponsesRequest request;
  json body, chat;
  out.ok = parse_json_object(R"({"model":"m","input":"a",)" + fields + "}", &body, &out.error) &&
           parse_response(body, &request, &out.error) &&
           chat_body(request, {request.items}, &chat, &out.error);
  return out.ok ? read(parse_chat, chat.dump()) : out;
}

const json kSchema = {{"kind", "json_schema"}, {"source", R"({"type":"object"})"}};
const json kObject = {{"kind", "json_object"}};
const json kRegex = {{"kind", "regex"}, {"source", "a+"}};
const json kGrammar = {{"kind", "gbnf"}, {"source", "root ::= x"}};
const json kChoice = {{"kind", "gbnf"}, {"source", R"(root ::= "yes" | "a\"\\\x0a\x7fé" | "")"}};
#define SCHEMA_TEXT "{\"type\":\"object\"}"
#define HOLDFAST_CHOICE R"(["yes","a\"\\\n\u007fé",""])"

TEST(FormatFields, ResponseFormat_WithEachServersFieldName_BecomesTheGrammar) {
  const std::pair<const char*, json> cases[] = {
      {R"("response_format":{"type":"json_object","schema":)" SCHEMA_TEXT "}", kSchema},
      {R"("response_format":{"type":"json_object","schema":null})", kObject},
      {R"("response_format":{"type":"json","value":)" SCHEMA_TEXT "}", kSchema},
      {R"("response_format":{"type":"json_schema","schema":)" SCHEMA_TEXT "}", kSchema},
      {R"("response_format":{"type":"json_schema","json_schema":)" SCHEMA_TEXT "}", kSchema},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":)" SCHEMA_TEXT
       "}}",
       kSchema},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n"},"schema":)" SCHEMA_TEXT
       "}",
       kSchema},
      {R"("response_format":{"type":"regex","pattern":"a+"})", kRegex},
      {R"("response_format":{"type":"regex","value":"a+"})", kRegex},
      {R"("response_format":{"type":"grammar","grammar":"root ::= x"})", kGrammar},
      {R"("structured_outputs":{"json":)" SCHEMA_TEXT "}", kSchema},
      {R"("structured_outputs":{"json":"{\"type\":\"object\"}","regex":null})", kSchema},
      {R"("structured_outputs":{"regex":"a+"})", kRegex},
      {R"("structured_outputs":{"choice":)" HOLDFAST_CHOICE "}", kChoice},
      {R"("structured_outputs":{"grammar":"root ::= x"})", kGrammar},
      {R"("structured_outputs":{"json_object":true})", kObject},
      {R"("structured_outputs":{"json_object":false})", nullptr},
      {R"("structured_outputs":{})", nullptr},
      {R"("guided_json_object":true)", kObject},
      {R"("guided_json_object":false)", nullptr},
      {R"("guided_choice":)" HOLDFAST_CHOICE, kChoice},
      {R"("regex":"a+")", kRegex},
      {R"("ebnf":"root ::= x")", kGrammar},
      {R"("grammar":"")", nullptr},
      {R"("format":"json")", kObject},
      {R"("format":"")", nullptr},
      {R"("format":)" SCHEMA_TEXT, kSchema},
      {R"("format":{"type":"json_schema","schema":)" SCHEMA_TEXT "}", kSchema},
      {R"("output_format":{"type":"json_schema","schema":)" SCHEMA_TEXT "}", kSchema},
      {R"("output_config":{"format":{"type":"json_schema","schema":)" SCHEMA_TEXT "}}", kSchema},
      {R"("text":{"format":{"type":"json_schema","name":"n","schema":)" SCHEMA_TEXT "}}", kSchema},
      {R"("text":{"format":{"type":"text"}})", nullptr},
      {R"("extra_body":{"guided_regex":"a+"})", kRegex}};
  for (const auto& [fields, grammar] : cases) {
    for (const auto& [endpoint, out] : {std::pair("chat", chat(fields)),
                                        {"messages", message(fields)},
                                        {"responses", response(fields)}}) {
      ASSERT_TRUE(out.ok) << endpoint << fields << out.error.message;
      EXPECT_EQ(out.grammar, grammar) << endpoint << fields;
      EXPECT_EQ(out.ignored, Names()) << endpoint << fields;
    }
    const Outcome text =
        read(parse_completion, R"({"model":"m","prompt":"a",)" + std::string(fields) + "}");
    ASSERT_TRUE(text.ok) << fields << text.error.message;
    EXPECT_EQ(text.grammar, grammar) << fields;
  }
}

// The alternatives of a choice are a grammar that compiles and has exactly these texts.
TEST(FormatFields, GuidedChoice_WithSpecialCharacters_CompilesToAGrammar) {
  const json request = chat(R"("guided_choice":)" HOLDFAST_CHOICE).grammar;
  const auto compiled = grammar::compile({request["kind"], request["source"]});
  EXPECT_TRUE(compiled.has_value()) << compiled.error().what;
}

TEST(FormatFields, ResponseFormat_WhenTwoFieldsConflict_IsRefusedByName) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {R"("response_format":{"type":"json_object"},"guided_regex":"a")", "response_format",
       "guided_regex"},
      {R"("guided_json":{"a":1},"structured_outputs":{"json":{"a":2}})", "guided_json",
       "structured_outputs.json"},
      {R"("structured_outputs":{"json":{"a":1},"regex":"a"})", "structured_outputs.json",
       "structured_outputs.regex"},
      {R"("format":"json","grammar":"root ::= x")", "format", "grammar"},
      {R"("output_format":{"type":"json_object"},"output_config":{"format":{"type":"regex",
          "pattern":"a"}})",
       "output_format", "output_config.format.pattern"},
      {R"("text":{"format":{"type":"json_object"}},"guided_choice":["a"])", "guided_choice",
       "text.format"}};
  for (const auto& [fields, param, other] : cases) {
    for (const Outcome& out : {chat(fields), message(fields), response(fields)}) {
      EXPECT_FALSE(out.ok) << fields;
      EXPECT_EQ(out.error.param, param) << out.error.message;
      EXPECT_NE(out.error.message.find("'" + std::string(other) + "'"), std::string::npos)
          << out.error.message;
    }
  }
  const Outcome same = chat(R"("response_format":{"type":"json_object","schema":{"a":1}},
                               "guided_json":{"a":1},"extra_body":{"guided_json":{"a":1}})");
  EXPECT_TRUE(same.ok) << same.error.message;
}

TEST(FormatFields, ResponseFormat_WhenInvalid_NamesTheParameter) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("response_format":{"type":"json_schema"})", "response_format"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n"}})", "response_format"},
      {R"("response_format":{"type":"structural_tag"})", "response_format"},
      {R"("response_format":{"type":"regex"})", "response_format.pattern"},
      {R"("response_format":{"type":"grammar","grammar":5})", "response_format.grammar"},
      {R"("response_format":"json")", "response_format"},
      {R"("structured_outputs":"json")", "structured_outputs"},
      {R"("structured_outputs":{"structural_tag":"{}"})", "structured_outputs.structural_tag"},
      {R"("structured_outputs":{"choice":[]})", "structured_outputs.choice"},
      {R"("structured_outputs":{"json_object":1})", "structured_outputs.json_object"},
      {R"("guided_choice":["a",5])", "guided_choice"},
      {R"("guided_choice":"a")", "guided_choice"},
      {R"("format":"yaml")", "format"},
      {R"("format":5)", "format"},
      {R"("output_format":{"type":"yaml"})", "output_format"},
      {R"("output_config":{"format":{}})", "output_config.format"},
      {R"("text":{"format":{"type":"yaml"}})", "text.format"},
      {R"("extra_body":{"guided_regex":5})", "guided_regex"},
      {R"("guided_regex":"a","extra_body":{"guided_regex":"b"})", "extra_body.guided_regex"}};
  for (const auto& [fields, param] : cases) {
    const Outcome out = chat(fields);
    EXPECT_FALSE(out.ok) << fields;
    EXPECT_EQ(out.error.param, param) << fields << out.error.message;
  }
}

TEST(FormatFields, FormatHints_WhenUnsupported_AreReportedAsIgnored) {
  const std::pair<const char*, Names> cases[] = {
      {R"("guided_decoding_backend":"x","guided_whitespace_pattern":" ")",
       {"guided_decoding_backend", "guided_whitespace_pattern"}},
      {R"("structured_outputs":{"regex":"a","whitespace_pattern":" ","disable_fallback":true})",
       {"structured_outputs.whitespace_pattern", "structured_outputs.disable_fallback"}},
      {R"("output_config":{"verbosity":"low"})", {"output_config.verbosity"}},
      {R"("text":{"verbosity":"low"})", {"text.verbosity"}},
      {R"("extra_body":5)", {"extra_body"}},
      {R"("extra_body":{"top_k":3,"odd":1})", {"extra_body.odd"}}};
  for (const auto& [fields, ignored] : cases) {
    const Outcome out = chat(fields);
    ASSERT_TRUE(out.ok) << fields << out.error.message;
    EXPECT_EQ(out.ignored, ignored) << fields;
  }
}

// Members of extra_body count as members of the body.
TEST(FormatFields, ExtraBody_WhenPresent_MergesIntoTheBody) {
  Generation generation;
  FieldError error;
  json body;
  ASSERT_TRUE(parse_json_object(
      R"({"model":"m","prompt":"a","top_p":null,"max_tokens":7,
          "extra_body":{"top_k":3,"top_p":0.5,"max_tokens":7,"extra_body":{"n":2}}})",
      &body, &error));
  ASSERT_TRUE(parse_completion(body, {}, &generation, &error)) << error.message;
  EXPECT_EQ(generation.submit.sampling.top_k, 3);
  EXPECT_FLOAT_EQ(generation.submit.sampling.top_p, 0.5F);
  EXPECT_EQ(generation.submit.n, 1);
  EXPECT_EQ(generation.submit.max_tokens, 7);
}

}  // namespace
}  // namespace holdfast::gateway::format_fields_test
