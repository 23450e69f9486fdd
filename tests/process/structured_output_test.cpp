// Goal: a request with a grammar or schema for its text gets such a text on every endpoint, the
// same one whichever process is killed in the middle of it; what cannot be honoured is refused
// before it is accepted. Method: `holdfast serve` with the demo model, which knows only
// Shakespeare, so without the grammar nothing of this would come; kills by pid from the stream's
// own callback; texts are compared byte for byte and read by a JSON parser and by a matcher of the
// same source.

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "shared/grammar/matcher.h"
#include "shared/grammar/request.h"
#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::structured_output_test {
namespace {

using nlohmann::json;

const json kSchema = json::parse(R"({
  "type": "object",
  "properties": {
    "speaker": {"enum": ["Romeo", "Juliet", "Nurse"]},
    "line": {"type": "string", "minLength": 40, "maxLength": 60},
    "notes": {"type": "array", "minItems": 2, "maxItems": 2,
              "items": {"type": "string", "minLength": 10, "maxLength": 20}},
    "sad": {"type": "boolean"}
  },
  "required": ["speaker", "line", "notes", "sad"],
  "additionalProperties": false
})");

bool fits(const grammar::GrammarRequest& request, const std::string& text, bool complete) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  std::vector<grammar::TokenTable::Token> tokens;
  for (std::size_t i = 0; i < 256; ++i) {
    tokens.push_back({std::string_view(bytes).substr(i, 1), false});
  }
  grammar::GrammarCache cache(grammar::TokenTable::make(tokens));
  grammar::Matcher matcher(cache.find(request).value());
  return matcher.accept_bytes(text) && (!complete || matcher.may_end());
}

const grammar::GrammarRequest kRequest = {"json_schema", kSchema.dump()};

class StructuredOutput : public testing::Test {
 protected:
  void SetUp() override {
    server_ = std::make_unique<TestServer>(dir_.path() + "/state");
    ASSERT_TRUE(server_->start({"--model", "demo=" + demo_model()})) << server_->errors();
  }
  void TearDown() override {
    if (server_->supervisor_pid() > 0) {
      EXPECT_EQ(server_->stop(), 0) << server_->errors();
    }
  }
  HttpAnswer post(const std::string& path, const json& body) {
    return http_exchange(server_->url(), http_post_text(path, body.dump()));
  }
  static json chat(std::int64_t seed) {
    return {{"model", "demo"},
            {"messages", {{{"role", "user"}, {"content", "Speak, Juliet:"}}}},
            {"max_tokens", 450},  // a document has at most 350: it may be indented
            {"temperature", 0.9},
            {"seed", seed}};
  }
  static json completion(std::int64_t seed) {
    return {{"model", "demo"},
            {"prompt", "O Romeo, "},
            {"max_tokens", 450},
            {"temperature", 0.9},
            {"seed", seed}};
  }
  static json with_schema(json body) {
    body["response_format"] = {{"type", "json_schema"},
                               {"json_schema", {{"name", "line"}, {"schema", kSchema}}}};
    return body;
  }

  TempDir dir_;
  std::unique_ptr<TestServer> server_;
};

TEST_F(StructuredOutput, JsonSchemaOutput_WhenAProcessIsKilled_IsTheSame) {
  const std::string path = "/v1/chat/completions";
  json body = with_schema(chat(7));
  body["stream"] = true;
  const SseResult expected = stream_sse(server_->url(), path, body.dump(), "quiet", Resume::kPost);
  ASSERT_EQ(expected.failure, "") << server_->errors();
  EXPECT_EQ(expected.finish, "stop");
  EXPECT_TRUE(fits(kRequest, expected.text, true)) << expected.text;
  const json document = json::parse(expected.text, nullptr, false);
  ASSERT_TRUE(document.is_object()) << expected.text;
  EXPECT_EQ(document.size(), 4u);
  ASSERT_GT(expected.index, 60) << expected.text;
  for (const char* name : {"worker-0", "daemon", "gateway"}) {
    for (const std::int64_t at : {5, 40}) {
      SCOPED_TRACE(std::string(name) + " at " + std::to_string(at));
      bool killed = false;
      const SseResult result =
          stream_sse(server_->url(), path, body.dump(), std::string(name) + std::to_string(at),
                     Resume::kPost, [&](std::int64_t index) {
                       if (!killed && index >= at) {
                         killed = server_->kill_child(name);
                       }
                     });
      EXPECT_TRUE(killed);
      EXPECT_EQ(result.failure, "") << server_->errors();
      EXPECT_EQ(result.text, expected.text);
      EXPECT_EQ(result.finish, "stop");
    }
  }
}

TEST_F(StructuredOutput, GuidedFinish_WhenMaxTokensAreNear_CompletesTheDocument) {
  json body = with_schema(completion(9));
  body["max_tokens"] = 180;  // the shortest document has 154 bytes
  body["stream"] = true;
  const std::string path = "/v1/completions";
  body["guided_finish"] = false;
  const SseResult cut = stream_sse(server_->url(), path, body.dump(), "cut", Resume::kPost);
  EXPECT_EQ(cut.finish, "length") << cut.text;
  body.erase("guided_finish");
  const SseResult whole = stream_sse(server_->url(), path, body.dump(), "whole", Resume::kPost);
  EXPECT_EQ(whole.finish, "stop");
  EXPECT_TRUE(fits(kRequest, whole.text, true)) << whole.text;
  bool killed = false;
  const auto kill = [&](std::int64_t index) {
    if (!killed && index >= 60) killed = server_->kill_child("worker-0");
  };
  const SseResult result = stream_sse(server_->url(), path, body.dump(), "k", Resume::kPost, kill);
  EXPECT_TRUE(killed);
  EXPECT_EQ(result.text, whole.text);
  EXPECT_EQ(result.finish, "stop");
  body["mirostat"] = 2;
  body["guided_finish"] = true;
  const HttpAnswer refused = post(path, body);
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("mirostat"), std::string::npos) << refused.body;
}

TEST_F(StructuredOutput, StructuredOutput_OnEveryEndpoint_TakesEveryKind) {
  const json chat_answer =
      json::parse(post("/v1/chat/completions", with_schema(chat(11))).body, nullptr, false);
  ASSERT_TRUE(chat_answer.contains("choices")) << chat_answer.dump();
  EXPECT_TRUE(
      fits(kRequest, chat_answer["choices"][0]["message"]["content"].get<std::string>(), true));
  const std::string pattern = "[a-z]{3,12}( [a-z]{3,12}){2}[.!?]";
  const std::string gbnf = "root ::= (\"yea\" | \"nay\") \", \" [a-z ]{10,30} \"\\n\"";
  const std::vector<std::pair<json, grammar::GrammarRequest>> cases = {
      {{{"response_format", {{"type", "json_object"}}}}, {"json_object", ""}},
      {{{"guided_json", kSchema}}, kRequest},
      {{{"json_schema", kSchema}}, kRequest},
      {{{"guided_regex", pattern}}, {"regex", pattern}},
      {{{"guided_grammar", gbnf}}, {"gbnf", gbnf}},
      {{{"grammar", gbnf}}, {"gbnf", gbnf}}};
  for (const auto& [fields, request] : cases) {
    SCOPED_TRACE(fields.dump());
    json body = completion(5);
    body.update(fields);
    const json answer = json::parse(post("/v1/completions", body).body, nullptr, false);
    ASSERT_TRUE(answer.contains("choices")) << answer.dump();
    const json& choice = answer["choices"][0];
    EXPECT_TRUE(fits(request, choice["text"].get<std::string>(), choice["finish_reason"] == "stop"))
        << choice.dump();
    if (request.kind != "json_object") {
      EXPECT_EQ(choice["finish_reason"], "stop");
    }
  }
}

TEST_F(StructuredOutput, JsonSchemaOutput_WithTheSdkOrSeveralChoices_FitsTheSchema) {
  auto client = server_->client();
  wire::Submit submit = make_submit("Now, good my lord:", 450, 21);
  submit.sampling.ignore_eos = false;
  submit.sampling.extra = grammar::extra_of(kRequest);
  submit.sampling.min_tokens = 250;  // cannot make a complete document longer
  const StreamResult first = submit_and_stream(*client, submit);
  ASSERT_EQ(first.failure, "");
  EXPECT_TRUE(fits(kRequest, first.text, true)) << first.text;
  json body = with_schema(completion(3));
  body["n"] = 4;
  const json answer = json::parse(post("/v1/completions", body).body, nullptr, false);
  ASSERT_TRUE(answer.contains("choices")) << answer.dump();
  std::set<std::string> texts;
  for (const json& choice : answer["choices"]) {
    EXPECT_TRUE(fits(kRequest, choice["text"], true)) << choice.dump();
    texts.insert(choice["text"]);
  }
  EXPECT_EQ(texts.size(), 4u);
}

TEST_F(StructuredOutput, Grammar_WhenInvalidOrUnsupported_IsRefusedBeforeAcceptance) {
  struct Case {
    json fields;
    std::string code;
    std::vector<std::string> words;
  };
  const auto schema = [](const char* text) {
    return json{{"response_format",
                 {{"type", "json_schema"}, {"json_schema", {{"schema", json::parse(text)}}}}}};
  };
  const std::vector<Case> cases = {
      {schema(R"({"type":"object","properties":{"a":{"not":{"format":"date"}}}})"),
       "unsupported",
       {"'format'", "#/properties/a/not"}},
      {schema(R"({"type":"string","enum":[1]})"), "invalid_request", {"no text satisfies"}},
      {schema(R"({"$ref":"#"})"), "invalid_request", {"refers to itself"}},
      {{{"guided_regex", "(a)\\1"}}, "unsupported", {"back reference"}},
      {{{"guided_regex", "(a{1000}){1000}"}}, "invalid_request", {"states"}},
      {{{"grammar", "root ::= root \"a\" | \"b\""}}, "unsupported", {"left recursion", "'root'"}},
      {{{"grammar", "root ::= \"a\""}, {"guided_regex", "a"}},
       "invalid_request",
       {"'grammar'", "'guided_regex'", "send one"}},
      {{{"response_format", {{"type", "yaml"}}}}, "invalid_request", {"json_schema"}},
      {{{"response_format", {{"type", "json_schema"}}}}, "invalid_request", {"schema"}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.fields.dump());
    json body = completion(1);
    body.update(c.fields);
    const HttpAnswer answer = post("/v1/completions", body);
    EXPECT_EQ(answer.status, 400) << answer.body;
    const json error = json::parse(answer.body, nullptr, false).value("error", json::object());
    EXPECT_EQ(error.value("code", ""), c.code) << answer.body;
    for (const std::string& word : c.words) {
      EXPECT_NE(error.value("message", "").find(word), std::string::npos) << answer.body;
    }
  }
  const Ended list = server_->cli({"--json", "requests", "list"});
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_EQ(list.out.find("\"queued\""), std::string::npos) << list.out;
  const json listed = json::parse(list.out, nullptr, false);
  ASSERT_TRUE(listed.contains("requests")) << list.out;
  EXPECT_TRUE(listed["requests"].empty()) << list.out;
}

}  // namespace
}  // namespace holdfast::process::structured_output_test
