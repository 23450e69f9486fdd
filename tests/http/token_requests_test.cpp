// Goal: POST /v1/requests takes what the C library takes and answers once the request is durable;
// ?form=tokens gives ids and bytes, each token once, from any token on. Method: a gateway in this
// process over a fake daemon with scripted tokens.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "control/gateway/native/token_stream.h"
#include "shared/base/base64.h"
#include "tests/http/http_peer.h"

namespace holdfast::test::token_requests_test {
namespace {

using nlohmann::json;

constexpr const char* kPath = "/v1/requests";

/// The tokens of a stream: the bytes of each, of choice 0.
std::vector<std::string> tokens_of(const std::vector<SseEvent>& events, std::int64_t* next) {
  std::vector<std::string> out;
  for (const SseEvent& event : events) {
    const json data = json::parse(event.data, nullptr, false);
    if (!data.contains("ids") || data["choice"] != 0) continue;
    EXPECT_EQ(data["index"], *next);
    const std::string bytes = from_base64(data["bytes"].get<std::string>()).value_or("?");
    std::uint32_t begin = 0;
    for (const std::uint32_t end : data["ends"]) {
      out.push_back(bytes.substr(begin, end - begin));
      begin = end;
    }
    *next += static_cast<std::int64_t>(data["ids"].size());
  }
  return out;
}

TEST(TokenRequests, Post_WithEveryMember_SubmitsThem) {
  Gateway gateway;
  const Reply reply = gateway.ask(post(kPath, R"({"model":"m","ids":[1,2],"max_tokens":9,"n":2,
      "stop":["x"],"seed":7,"temperature":0.5,"key":"k","session":"s","priority":"batch",
      "queue_timeout_ms":5,"on_disconnect":"cancel"})"));
  ASSERT_EQ(reply.status, 202) << reply.body;
  EXPECT_EQ(reply.headers.at("x-request-id"), "req1");
  const json state = json::parse(reply.body);
  EXPECT_EQ(state["id"], "req1");
  EXPECT_EQ(state["model"], "m");
  const wire::Submit submit = gateway.client.last_submit();
  EXPECT_EQ(submit.prompts.at(0).ids, (std::vector<wire::TokenId>{1, 2}));
  EXPECT_EQ(submit.max_tokens, 9);
  EXPECT_EQ(submit.n, 2);
  EXPECT_EQ(submit.idem_key, "k");
  EXPECT_EQ(submit.sticky, "s");
  EXPECT_EQ(submit.priority, wire::PriorityClass::kBatch);
  EXPECT_EQ(submit.on_disconnect, wire::OnDisconnect::kCancel);
  EXPECT_FALSE(submit.body_hash.empty());
}

TEST(TokenRequests, Post_WhenWrong_NamesTheMember) {
  Gateway gateway;
  for (const auto& [body, member] : std::vector<std::pair<std::string, std::string>>{
           {R"({"prompt":"a"})", "model"},
           {R"({"model":"m"})", "prompt"},
           {R"({"model":"m","prompt":"a","ids":[1]})", "prompt"},
           {R"({"model":"m","prompt":"a","nothing":1})", "nothing"},
           {R"({"model":"m","prompt":"a","temperature":-1})", "temperature"},
           {R"({"model":"m","prompt":"a","n":100000})", "n"},
           {R"({"model":"m","prompt":"a","n":129})", "n"},
           {R"({"model":"m","prompt":"a","tenant":"other"})", "tenant"},
           {R"({"model":"m","prompt":"a","stop":[1]})", "stop"}}) {
    const Reply reply = gateway.ask(post(kPath, body));
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_EQ(json::parse(reply.body)["error"]["param"], member) << body << reply.body;
  }
  EXPECT_EQ(gateway.ask(post(kPath, "[]")).status, 400);
  EXPECT_EQ(gateway.ask(post(kPath, "{")).status, 400);
  const Reply two =
      gateway.ask(post(kPath, R"({"model":"m","prompt":"a","key":"x"})", "Idempotency-Key: y\r\n"));
  EXPECT_EQ(json::parse(two.body)["error"]["param"], "key") << two.body;
  EXPECT_EQ(gateway.client.submits(), 0);
}

TEST(TokenRequests, Stream_FromAnyToken_GivesBytesOnce) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"He", "l\xf0\x9f", "", "\x98\x80", "\xff", "end"}};
  ASSERT_EQ(gateway.ask(post(kPath, R"({"model":"m","prompt":"a"})")).status, 202);
  for (std::int64_t from = 0; from <= 6; ++from) {
    const Reply reply =
        gateway.ask(get("/v1/requests/req1/stream?form=tokens&from=" + std::to_string(from)));
    ASSERT_EQ(reply.status, 200);
    const auto events = parse_events(reply.body);
    ASSERT_GE(events.size(), 2U) << reply.body;
    std::int64_t next = from;
    const auto& all = gateway.client.script.token_bytes[0];
    EXPECT_EQ(tokens_of(events, &next), std::vector<std::string>(all.begin() + from, all.end()));
    EXPECT_EQ(next, 6);
    const json end = json::parse(events.back().data);
    EXPECT_EQ(end["choices"][0]["tokens"], 6);
    EXPECT_EQ(end["choices"][0]["finish_reason"], "length");
  }
}

TEST(TokenRequests, Stream_OfARequestOfAnotherApi_IsTheSame) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"a", "b"}};
  ASSERT_EQ(gateway
                .ask(post("/v1/chat/completions",
                          R"({"model":"m","messages":[{"role":"user","content":"a"}],"stop":"z"})"))
                .status,
            200);
  const Reply reply = gateway.ask(get("/v1/requests/req1/stream?form=tokens"));
  const auto events = parse_events(reply.body);
  std::int64_t next = 0;
  EXPECT_EQ(tokens_of(events, &next), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(json::parse(events.at(0).data)["stops"], json::array({"z"}));
  EXPECT_EQ(gateway.ask(get("/v1/requests/req1/stream?form=lines")).status, 400);
}

TEST(TokenRequests, Writer_WithEventsThatOverlapWhatWasSent_CutsThem) {
  wire::RequestInfo info;
  info.request_id = "r";
  info.choices.resize(2);
  gateway::TokenWriter writer(info, {2, 0});
  wire::Event event;
  event.request_id = "r";
  event.ids = {10, 11, 12, 13};
  event.bytes = "aabbc";
  event.ends = {2, 4, 4, 5};
  const auto events = parse_events(writer.on_event(event));
  ASSERT_EQ(events.size(), 2U);
  const json data = json::parse(events[1].data);
  EXPECT_EQ(data["index"], 2);
  EXPECT_EQ(data["ids"], json::array({12, 13}));
  EXPECT_EQ(data["ends"], json::array({0, 1}));
  EXPECT_EQ(from_base64(data["bytes"].get<std::string>()), "c");
  EXPECT_EQ(events[1].id, "r.4,0");
  EXPECT_EQ(writer.on_event(event), "");
}

}  // namespace
}  // namespace holdfast::test::token_requests_test
