// Goal: the endpoints obey OpenAI's contract and ours: ids, usage, errors, idempotency, resuming.
// Method: a gateway in this process over a fake daemon with scripted tokens; documents are parsed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/gateway/http/sse.h"
#include "shared/wire/prompt_scores.h"
#include "tests/http/http_peer.h"

namespace holdfast::test::api_test {
namespace {

using nlohmann::json;

const std::string kBody = R"({"model":"m","prompt":"a"})";
const std::string kStream = R"({"model":"m","prompt":"a","stream":true})";
const std::string kChat = R"({"model":"m","messages":[{"role":"user","content":"a"}])";
constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kChats = "/v1/chat/completions";

wire::ModelInfo model(const std::string& name, const std::string& state) {
  wire::ModelInfo info;
  info.name = name;
  info.state = state;
  info.sha = "ab";
  info.created_ms = 5000;
  return info;
}

TEST(Api, Readiness_WhenNoModelIsReady_ReturnsTheReason) {
  Gateway gateway;
  EXPECT_EQ(gateway.ask(get("/health/live")).status, 200);
  Reply reply = gateway.ask(get("/health/ready"));
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(json::parse(reply.body)["reason"], "no model is registered");
  gateway.client.model_list = {model("a", "loading")};
  reply = gateway.ask(get("/health/ready"));
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(json::parse(reply.body)["reason"], "no model is ready (a: loading)");
  gateway.client.model_list.push_back(model("b", "ready"));
  EXPECT_EQ(gateway.ask(get("/health/ready")).status, 200);
  gateway.client.silent = true;
  gateway.context().ready_time = std::chrono::milliseconds(20);
  reply = gateway.ask(get("/health/ready"));
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(json::parse(reply.body)["reason"], "the daemon does not answer");
}

TEST(Api, Models_WhenListedOrNamed_ReturnTheirState) {
  Gateway gateway;
  gateway.client.model_list = {model("a", "ready"), model("org/b c", "unloaded")};
  const json list = json::parse(gateway.ask(get("/v1/models")).body);
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][0]["id"], "a");
  EXPECT_EQ(list["data"][0]["created"], 5);
  EXPECT_EQ(json::parse(gateway.ask(get("/v1/models/org/b%20c")).body)["state"], "unloaded");
  const Reply none = gateway.ask(get("/v1/models/c"));
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(json::parse(none.body)["error"]["code"], "model_not_found");
}

TEST(Api, Route_WhenPathOrMethodIsUnknown_Returns404Or405) {
  Gateway gateway;
  EXPECT_EQ(gateway.ask(get("/v2")).status, 404);
  EXPECT_EQ(gateway.ask(get("/v1/requests/")).status, 404);
  EXPECT_EQ(gateway.ask(get("/v1/requests/%FF%00")).status, 404);
  const Reply wrong = gateway.ask(get(kCompletions));
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  EXPECT_EQ(gateway.ask(post("/v1/requests/x", "")).headers.at("allow"), "GET, DELETE");
}

TEST(Api, Completion_WhenFinished_ReturnsOpenAiDocument) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"He", "llo \xf0\x9f", "\x98\x80", "\""}};
  const Reply reply = gateway.ask(post(kCompletions, kBody));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("x-request-id"), "req1");
  const json body = json::parse(reply.body);
  EXPECT_EQ(body["id"], "cmpl-req1");
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["created"], 1'700'000'001);
  EXPECT_EQ(body["choices"][0]["text"], "Hello 😀\"");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(body["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(body["usage"],
            json::parse(R"({"prompt_tokens":7,"completion_tokens":4,"total_tokens":11,
                "prompt_tokens_details":{"cached_tokens":0},
                "completion_tokens_details":{"reasoning_tokens":0}})"));
  EXPECT_EQ(gateway.client.last_submit().on_disconnect, wire::OnDisconnect::kCancel);
}

TEST(Api, BestOf_WhenLargerThanN_ReturnsTheLikeliestOfEachPrompt) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"a"}, {"b"}, {"c"}, {"d"}, {"e"}, {"f"}};
  gateway.client.script.choice_extra = {R"({"logprob":-3})", R"({"logprob":-1})",
                                        R"({"logprob":-2})", R"({"logprob":-1})",
                                        R"({"logprob":-5})", R"({"logprob":-4})"};
  const Reply reply =
      gateway.ask(post(kCompletions, R"({"model":"m","prompt":["p","q"],"n":2,"best_of":3})"));
  const json body = json::parse(reply.body);
  ASSERT_EQ(body["choices"].size(), 4u) << reply.body;
  const char* expected[] = {"b", "c", "d", "f"};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(body["choices"][i]["text"], expected[i]);
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_TRUE(body["choices"][i]["logprobs"].is_null());
  }
  EXPECT_EQ(body["usage"]["completion_tokens"], 6) << "all of them were made";
  EXPECT_EQ(gateway.client.last_submit().n, 3);
  EXPECT_EQ(gateway.client.last_submit().sampling.logprobs, 0);
  const std::string id = reply.headers.at("x-request-id");
  EXPECT_EQ(gateway.ask(get("/v1/requests/" + id + "/stream")).body, reply.body);
}

TEST(Api, Choices_WithSeveralPrompts_ArePromptMajorAndEchoed) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"0"}, {"1"}, {"2"}, {"3"}};
  const json body = json::parse(
      gateway.ask(post(kCompletions, R"({"model":"m","prompt":["p","q"],"n":2,"echo":true})"))
          .body);
  ASSERT_EQ(body["choices"].size(), 4u);
  const char* expected[] = {"p0", "p1", "q2", "q3"};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(body["choices"][i]["text"], expected[i]);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 14);
}

TEST(Api, ChatCompletion_WhenStreamedOrNot_ReturnsOpenAiDocuments) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"Hi", " you", "STOP"}};
  gateway.client.script.finish = wire::FinishReason::kStop;
  json body = json::parse(gateway.ask(post(kChats, kChat + R"(,"stop":"STOP"})")).body);
  EXPECT_EQ(body["id"], "chatcmpl-req1");
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["choices"][0]["message"],
            json::parse(R"({"role":"assistant","content":"Hi you"})"));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["usage"]["completion_tokens"], 3);

  const Reply reply = gateway.ask(post(
      kChats, kChat + R"(,"stop":"STOP","stream":true,"stream_options":{"include_usage":true}})"));
  EXPECT_EQ(reply.headers.at("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(reply.headers.at("x-request-id"), "req2");
  const auto events = parse_events(reply.body);
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events[0].id, "req2.0");
  const json first = json::parse(events[0].data);
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["choices"][0]["delta"], json::parse(R"({"role":"assistant","content":""})"));
  EXPECT_TRUE(first["usage"].is_null());
  EXPECT_EQ(text_of(events, 0), "Hi you");
  const json last = json::parse(events[events.size() - 3].data);
  EXPECT_EQ(last["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(last["choices"][0]["delta"], json::object());
  const json usage = json::parse(events[events.size() - 2].data);
  EXPECT_EQ(usage["choices"], json::array());
  EXPECT_EQ(usage["usage"]["completion_tokens"], 3);
  EXPECT_EQ(events.back().data, "[DONE]");
  EXPECT_EQ(events.back().id, "req2.3");
}

TEST(Api, Logprobs_WhenRequested_HaveTheFormOfEachApi) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"a", "\xc3", "\xa9"}};
  gateway.client.script.extra = {R"({"logprob":-0.5,"top":[[3,-0.5],[4,-1.5]]})", "",
                                 R"({"top":[[5,-2,[120]],[6,-3,[195]],[7,-4,[120]]]})"};
  const json body = json::parse(
      gateway.ask(post(kCompletions, R"({"model":"m","prompt":"a","logprobs":1})")).body);
  const json& logs = body["choices"][0]["logprobs"];
  EXPECT_EQ(logs["token_logprobs"][0], -0.5);
  EXPECT_TRUE(logs["token_logprobs"][1].is_null());
  EXPECT_EQ(logs["top_logprobs"][0]["token_id:3"], -0.5);
  EXPECT_EQ(logs["top_logprobs"][2], json::parse(R"({"x":-2,"\ufffd":-3})"));
  EXPECT_EQ(logs["text_offset"], json::parse("[0,1,2]"));
  const json chat =
      json::parse(gateway.ask(post(kChats, kChat + R"(,"logprobs":true,"top_logprobs":1})")).body);
  const json& content = chat["choices"][0]["logprobs"]["content"];
  EXPECT_EQ(content.size(), 3u);
  EXPECT_EQ(content[1]["bytes"], json::parse("[195]"));
  EXPECT_EQ(content[2]["top_logprobs"][0],
            json::parse(R"({"token":"x","logprob":-2,"bytes":[120]})"));
  EXPECT_EQ(content[2]["top_logprobs"][1]["bytes"], json::parse("[195]"));
}

/// The scores of the prompt BOS "a" "é" " b", with the second character in two tokens.
std::string scored_extra(const std::string& extra) {
  wire::PromptScores scores;
  scores.top = 2;
  scores.ids = {1, 10, 11, 12, 13};
  scores.scores = {{-0.1F, 1}, {-2.5F, 3}, {-0.25F, 1}, {-4.0F, 9}};
  scores.alternatives = {{10, -0.1F},  {12, -3.0F}, {10, -1.0F}, {13, -1.5F},
                         {12, -0.25F}, {7, -2.0F},  {13, -0.5F}, {10, -0.75F}};
  scores.token_bytes = {{1, {"<s>", true}},    {10, {"a", false}},  {11, {"\xc3", false}},
                        {12, {"\xa9", false}}, {13, {" b", false}}, {7, {"", true}}};
  return wire::with_prompt_scores(extra, scores);
}

TEST(Api, EchoedPrompt_WithLogprobs_HasItsTokenLogprobs) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"x", "é", "y"}};
  gateway.client.script.extra = {scored_extra(R"({"logprob":-0.5,"top":[[3,-0.5,[120]]]})"),
                                 R"({"logprob":-1,"top":[]})", R"({"logprob":-2,"top":[]})"};
  const std::string body_prefix = R"({"model":"m","prompt":"aé b","echo":true,"logprobs":1)";
  const json body = json::parse(gateway.ask(post(kCompletions, body_prefix + "}")).body);
  EXPECT_EQ(body["choices"][0]["text"], "aé bxéy");
  const json logs = body["choices"][0]["logprobs"];
  EXPECT_EQ(logs["tokens"], json::parse(R"(["<s>","a","\ufffd","\ufffd"," b","x","é","y"])"));
  EXPECT_EQ(logs["token_logprobs"].dump(), "[null,-0.1,-2.5,-0.25,-4.0,-0.5,-1,-2]");
  EXPECT_EQ(logs["text_offset"], json::parse("[0,0,1,2,2,4,5,6]"));
  EXPECT_EQ(logs["top_logprobs"].dump(),
            R"([null,{"a":-0.1},{"a":-1.0},{"�":-0.25},{" b":-0.5},{"x":-0.5},{},{}])");
  EXPECT_FALSE(body["choices"][0].contains("prompt_logprobs"));

  const auto events =
      parse_events(gateway.ask(post(kCompletions, body_prefix + R"(,"stream":true})")).body);
  EXPECT_EQ(text_of(events, 0), "aé bxéy");
  json together;
  for (const SseEvent& event : events) {
    if (event.data == "[DONE]") continue;
    const json part = json::parse(event.data)["choices"][0]["logprobs"];
    for (const auto& [name, values] : part.items()) {
      for (const json& value : values) together[name].push_back(value);
    }
  }
  EXPECT_EQ(together, logs);
}

TEST(Api, PromptLogprobs_WhenRequested_HaveVllmForm) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"x"}};
  gateway.client.script.extra = {scored_extra("")};
  const json body = json::parse(
      gateway.ask(post(kCompletions, R"({"model":"m","prompt":"aé b","prompt_logprobs":1,"n":2})"))
          .body);
  for (int c = 0; c < 2; ++c) {
    const json& list = body["choices"][c]["prompt_logprobs"];
    ASSERT_EQ(list.size(), 5u) << body.dump();
    EXPECT_TRUE(list[0].is_null());
    EXPECT_EQ(list[1], json::parse(R"({"10":{"logprob":-0.1,"rank":1,"decoded_token":"a"}})"));
    EXPECT_EQ(list[4], json::parse(R"({"13":{"logprob":-4.0,"rank":9,"decoded_token":" b"}})"))
        << "its own place, not that in the list";
    EXPECT_EQ(list[2], json::parse(R"({"11":{"logprob":-2.5,"rank":3,"decoded_token":"\ufffd"},
                                       "10":{"logprob":-1.0,"rank":1,"decoded_token":"a"}})"));
    EXPECT_TRUE(body["choices"][c]["logprobs"].is_null());
  }
  const json talk = json::parse(gateway.ask(post(kChats, kChat + R"(,"prompt_logprobs":2})")).body);
  EXPECT_EQ(talk["prompt_logprobs"][3]["7"],
            json::parse(R"({"logprob":-2.0,"rank":2,"decoded_token":"token_id:7"})"));
  EXPECT_FALSE(talk["choices"][0].contains("prompt_logprobs"));
}

TEST(Api, Refusal_WhenDaemonGivesNumbers_ReturnsThemWithItsStatus) {
  Gateway gateway;
  client::Failure failure;
  failure.code = Errc::kQueueFull;
  failure.message = "the queue is full";
  failure.retry_after_ms = 2500;
  failure.queue_position = 7;
  gateway.client.failure = failure;
  Reply reply = gateway.ask(post(kCompletions, kBody));
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.headers.at("retry-after"), "3");
  const json error = json::parse(reply.body)["error"];
  EXPECT_EQ(error["code"], "queue_full");
  EXPECT_EQ(error["type"], "rate_limit_error");
  EXPECT_EQ(error["retry_after_ms"], 2500);
  EXPECT_EQ(error["queue_position"], 7);
  EXPECT_TRUE(error["param"].is_null());
  EXPECT_FALSE(error.contains("needed"));
  const std::pair<Errc, int> cases[] = {
      {Errc::kContextExceeded, 400}, {Errc::kModelNotFound, 404}, {Errc::kDraining, 503},
      {Errc::kUnreachable, 503},     {Errc::kStorageFull, 507},   {Errc::kUnauthorized, 401},
      {Errc::kModelFailed, 503},     {Errc::kInvalidRequest, 400}};
  for (const auto& [code, status] : cases) {
    gateway.client.failure->code = code;
    reply = gateway.ask(post(kChats, kChat + "}"));
    EXPECT_EQ(reply.status, status) << errc_name(code);
    EXPECT_EQ(reply.headers.contains("retry-after"), status == 503) << errc_name(code);
  }
}

// OpenAI's headers tell the state of a key's limits in each answer; 429 has OpenAI's words.
TEST(Api, RateLimit_WhenKeyHasLimits_SendsOpenAiHeaders) {
  Gateway gateway;
  gateway.client.key = wire::KeyStanding{60, 59, 59'900};
  Reply reply = gateway.ask(post(kCompletions, kBody));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("x-ratelimit-limit-requests"), "60");
  EXPECT_EQ(reply.headers.at("x-ratelimit-remaining-requests"), "59");
  EXPECT_EQ(reply.headers.at("x-ratelimit-reset-requests"), "1m0s");
  client::Failure failure;
  failure.code = Errc::kRateLimited;
  failure.message = "rate limit reached";
  failure.retry_after_ms = 1'200;
  failure.key = wire::KeyStanding{60, 0, 120};
  gateway.client.failure = failure;
  reply = gateway.ask(post(kCompletions, kBody));
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.headers.at("retry-after"), "2");
  EXPECT_EQ(reply.headers.at("x-ratelimit-remaining-requests"), "0");
  EXPECT_EQ(reply.headers.at("x-ratelimit-reset-requests"), "120ms");
  const json error = json::parse(reply.body)["error"];
  EXPECT_EQ(error["code"], "rate_limit_exceeded");
  EXPECT_EQ(error["type"], "requests");
}

TEST(Api, Request_WhenBodyOrHeaderIsInvalid_Returns400) {
  Gateway gateway;
  Reply reply =
      gateway.ask(post(kCompletions, R"({"model":"m","prompt":"a","temperature":"hot"})"));
  EXPECT_EQ(reply.status, 400);
  const json error = json::parse(reply.body)["error"];
  EXPECT_EQ(error["param"], "temperature");
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_EQ(error["code"], "invalid_request");
  for (const char* header : {"Idempotency-Key: a b\r\n", "X-On-Disconnect: maybe\r\n",
                             "Last-Event-ID: x\r\n", "Last-Event-ID: req9.1,2\r\n"}) {
    EXPECT_EQ(gateway.ask(post(kCompletions, kBody, header)).status, 400) << header;
  }
  reply = gateway.ask(post(kCompletions, R"({"model":"m","prompt":"a","best":1,"x\r\ny":2})"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("x-holdfast-ignored"), "best, x??y");
}

TEST(Api, DisconnectPolicy_WithIdempotencyKey_DefaultsToContinue) {
  Gateway gateway;
  const auto policy = [&](const std::string& headers) {
    gateway.ask(post(kCompletions, kBody, headers));
    return gateway.client.last_submit().on_disconnect;
  };
  EXPECT_EQ(policy(""), wire::OnDisconnect::kCancel);
  EXPECT_EQ(policy("X-On-Disconnect: continue\r\n"), wire::OnDisconnect::kContinue);
  EXPECT_EQ(policy("Idempotency-Key: k1\r\n"), wire::OnDisconnect::kContinue);
  EXPECT_EQ(policy("Idempotency-Key: k2\r\nX-On-Disconnect: cancel\r\n"),
            wire::OnDisconnect::kCancel);
}

TEST(Api, IdempotencyKey_WhenRepeated_ReturnsTheSameRequest) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"a", "b"}};
  const std::string key = "Idempotency-Key: k\r\n";
  const Reply first = gateway.ask(post(kCompletions, kBody, key));
  gateway.client.script.token_bytes = {{"other"}};
  const Reply second = gateway.ask(post(kCompletions, R"( {"prompt" : "a", "model" : "m"} )", key));
  EXPECT_EQ(first.body, second.body);
  EXPECT_EQ(first.headers.at("x-request-id"), second.headers.at("x-request-id"));
  EXPECT_EQ(second.headers.at("x-holdfast-duplicate"), "true");
  EXPECT_EQ(gateway.client.submits(), 1);
  for (const std::string& other : {std::string(R"({"model":"m","prompt":"b"})"), kStream}) {
    const Reply mismatch = gateway.ask(post(kCompletions, other, key));
    EXPECT_EQ(mismatch.status, 422);
    EXPECT_EQ(json::parse(mismatch.body)["error"]["code"], "idempotency_mismatch");
  }
  EXPECT_EQ(gateway.ask(post(kChats, kChat + "}", key)).status, 422);
}

TEST(Api, Stream_WhenResumedFromAnyIdOnAnyRoute_GivesTheRest) {
  Gateway gateway;
  gateway.client.script.token_bytes = {
      {"H\xc3", "\xa9", "llo", " \xe2", "\x82", "\xac", "x\n", "\n!"}, {"z", "\n", "end"}};
  const std::string body = R"({"model":"m","prompt":"a","n":2,"stream":true,"stop":["\n\n"]})";
  const std::string key = "Idempotency-Key: k\r\n";
  const auto events = parse_events(gateway.ask(post(kCompletions, body, key)).body);
  const std::string whole[] = {text_of(events, 0), text_of(events, 1)};
  EXPECT_EQ(whole[0],
            "Hé"
            "llo €x");
  EXPECT_EQ(whole[1], "z\nend");
  for (std::size_t at = 0; at < events.size(); ++at) {
    const std::string last = "Last-Event-ID: " + events[at].id + "\r\n";
    const std::vector<SseEvent> before(events.begin(), events.begin() + static_cast<long>(at) + 1);
    const std::string from = events[at].id.substr(events[at].id.rfind('.') + 1);
    for (const std::string& request :
         {post(kCompletions, body, key + last), post(kCompletions, body, last),
          get("/v1/requests/req1/stream", last), get("/v1/requests/req1/stream?from=" + from)}) {
      const auto after = parse_events(gateway.ask(request).body);
      for (int c = 0; c < 2; ++c) {
        EXPECT_EQ(text_of(before, c) + text_of(after, c), whole[c]) << events[at].id << request;
      }
      EXPECT_EQ(after.back().data, "[DONE]");
    }
  }
  EXPECT_EQ(gateway.client.submits(), 1);
}

TEST(Api, Resume_WhenIdIsOfAnotherRequest_IsRefused) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"a"}};
  gateway.ask(post(kCompletions, kStream, "Idempotency-Key: k\r\n"));
  gateway.ask(post(kCompletions, kStream));
  // The key finds req1, the id names req2; another body under an id; an unknown id.
  EXPECT_EQ(
      gateway.ask(post(kCompletions, kStream, "Idempotency-Key: k\r\nLast-Event-ID: req2.1\r\n"))
          .status,
      422);
  EXPECT_EQ(gateway
                .ask(post(kCompletions, R"({"model":"m","prompt":"b","stream":true})",
                          "Last-Event-ID: req2.1\r\n"))
                .status,
            422);
  EXPECT_EQ(gateway.ask(post(kCompletions, kStream, "Last-Event-ID: nobody.1\r\n")).status, 404);
  EXPECT_EQ(gateway.ask(get("/v1/requests/req1/stream", "Last-Event-ID: req2.1\r\n")).status, 400);
  EXPECT_EQ(gateway.ask(get("/v1/requests/req1/stream?from=x")).status, 400);
  EXPECT_EQ(gateway.ask(get("/v1/requests/req1/stream?from=1,2")).status, 400);
  EXPECT_EQ(gateway.client.submits(), 2);
}

TEST(Api, LiveStream_WhenClientReconnects_ContinuesFromLastEventId) {
  Gateway gateway;
  gateway.client.hold_tokens = true;
  gateway.client.script.token_bytes = {{"one ", "two ", "three"}};
  std::string id;
  {
    Peer peer(gateway.address());
    peer.send(post(kCompletions, kStream, "Idempotency-Key: k\r\n"));
    gateway.client.wait_for([&] { return gateway.client.submits() == 1; });
    gateway.client.commit("req1", 2, false);
    const auto events = parse_events(peer.read_until("two ").body);
    id = events.back().id;
    EXPECT_EQ(text_of(events, 0), "one two ");
    EXPECT_EQ(id, "req1.2");
  }
  Peer peer(gateway.address());
  peer.send(post(kCompletions, kStream, "Idempotency-Key: k\r\nLast-Event-ID: " + id + "\r\n"));
  gateway.client.wait_for([&] { return gateway.client.open_streams() >= 1; });
  gateway.client.commit("req1", 3, true);
  EXPECT_EQ(text_of(parse_events(peer.read_reply().body), 0), "three");
}

TEST(Api, Request_WhenQueriedOrDeletedById_ReturnsItsState) {
  Gateway gateway;
  gateway.client.hold_tokens = true;
  gateway.client.script.token_bytes = {{"a", "b"}};
  Peer peer(gateway.address());
  peer.send(post(kCompletions, kStream));
  gateway.client.wait_for([&] { return gateway.client.open_streams() == 1; });
  gateway.client.commit("req1", 1, false);
  json info = json::parse(gateway.ask(get("/v1/requests/req1")).body);
  EXPECT_EQ(info["state"], "running");
  EXPECT_EQ(info["choices"][0]["tokens"], 1);
  EXPECT_TRUE(info["choices"][0]["finish_reason"].is_null());
  info = json::parse(gateway.ask("DELETE /v1/requests/req1 HTTP/1.1\r\nHost: h\r\n\r\n").body);
  EXPECT_EQ(info["state"], "cancelled");
  EXPECT_EQ(gateway.client.cancels(), 1);
  const auto events = parse_events(peer.read_reply().body);
  EXPECT_EQ(json::parse(events[events.size() - 2].data)["choices"][0]["finish_reason"],
            "cancelled");
  EXPECT_EQ(gateway.ask(get("/v1/requests/none")).status, 404);
  EXPECT_EQ(gateway.ask("DELETE /v1/requests/none HTTP/1.1\r\nHost: h\r\n\r\n").status, 404);
}

TEST(Api, Request_WhenItFails_EndsWithItsError) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"a"}};
  gateway.client.script.finish = wire::FinishReason::kError;
  const Reply whole = gateway.ask(post(kCompletions, kBody));
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(whole.headers.at("x-request-id"), "req1");
  const auto events = parse_events(gateway.ask(post(kCompletions, kStream)).body);
  EXPECT_TRUE(json::parse(events[events.size() - 2].data).contains("error"));
  EXPECT_EQ(events.back().data, "[DONE]");
}

TEST(Api, Request_WhenClientLeavesBeforeAcceptance_IsCancelled) {
  Gateway gateway;
  gateway.client.silent = false;
  gateway.client.hold_tokens = true;
  // Many short-lived clients. Whether each is seen leaving before or after its acceptance, nothing
  // stays attached, and a request that no client can know is cancelled.
  for (int i = 0; i < 50; ++i) {
    Peer peer(gateway.address());
    peer.send(post(kCompletions, kBody));
    peer.shut();
  }
  gateway.client.wait_for([&] { return gateway.server().connections() == 0; });
  gateway.client.wait_for([&] { return gateway.client.open_streams() == 0; });
  EXPECT_LE(gateway.client.cancels(), gateway.client.submits());
}

}  // namespace
}  // namespace holdfast::test::api_test
