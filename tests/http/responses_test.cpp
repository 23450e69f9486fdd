// Goal: a turn's input may name stored items, and a conversation can be compacted and continues
// from its summary; what belongs to another caller is not found. Method: a gateway in this process
// over a fake daemon that stores objects by owner; the model's prompt is read from what was
// submitted.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "shared/client/api_key.h"
#include "tests/http/http_peer.h"

namespace holdfast::test::responses_test {
namespace {

using nlohmann::json;

constexpr const char* kPath = "/v1/responses";
constexpr const char* kCompact = "/v1/responses/compact";

class Responses : public testing::Test {
 protected:
  Responses() {
    gateway.client.stores_objects = true;
    gateway.client.script.token_bytes = {{"He", "llo"}};
    gateway.client.script.finish = wire::FinishReason::kStop;
  }
  json ask(const std::string& path, const json& body, const std::string& headers = "") {
    const Reply reply = gateway.ask(post(path, body.dump(), headers));
    status = reply.status;
    return json::parse(reply.body);
  }
  json turn(const json& input, const json& more = json::object(), const std::string& headers = "") {
    json body = {{"model", "m"}, {"input", input}};
    body.update(more);
    return ask(kPath, body, headers);
  }
  /// Returns the messages of the last prompt that the model got.
  json messages() {
    return json::parse(*gateway.client.last_submit().prompts[0].messages_json)["messages"];
  }
  /// Makes two tenants with a key each.
  void take_keys() {
    json list = json::array();
    for (const std::string key : {"a", "b"}) {
      list.push_back({{"seq", list.size() + 1},
                      {"id", "key_" + key},
                      {"owner", ""},
                      {"version", 1},
                      {"created_ms", 1},
                      {"expires_ms", 0},
                      {"bytes", 0},
                      {"body",
                       {{"hash", client::hash_api_key(key)},
                        {"role", "client"},
                        {"tenant", "t-" + key},
                        {"revoked_ms", 0}}}});
    }
    gateway.client.op_results["objects.list"] = json{{"more", false}, {"objects", list}}.dump();
    gateway.context().access =
        std::make_shared<gateway::Access>(*gateway.context().object_store, true);
    gateway.context().access->start();
  }
  static std::string as(const std::string& key) { return "Authorization: Bearer " + key + "\r\n"; }

  Gateway gateway;
  int status = 0;
};

json message(const std::string& role, const std::string& text) {
  return {{"role", role}, {"content", text}};
}

TEST_F(Responses, ItemReference_WhenItemIsStored_ResolvesById) {
  const json first = turn(json::array({message("user", "one"), message("user", "two")}));
  ASSERT_EQ(status, 200) << first.dump();
  const std::string id = first["id"];
  turn(json::array({{{"type", "item_reference"}, {"id", "item_" + id + "_1"}},
                    {{"id", first["output"][0]["id"]}},
                    message("user", "three")}));
  ASSERT_EQ(status, 200);
  EXPECT_EQ(messages(), json::array({message("user", "two"), message("assistant", "Hello"),
                                     message("user", "three")}));
}

TEST_F(Responses, ItemReference_WithClientChosenId_ResolvesInTheConversation) {
  json named = message("user", "one");
  named["id"] = "msg_of_mine";
  const json first = turn(json::array({named}));
  const json input = json::array({{{"type", "item_reference"}, {"id", "msg_of_mine"}}});
  EXPECT_EQ(turn(input)["error"]["param"], "input[0]") << "nothing says where it is";
  EXPECT_EQ(status, 400);
  const json second = turn(input, {{"previous_response_id", first["id"]}});
  ASSERT_EQ(status, 200) << second.dump();
  EXPECT_EQ(messages().back(), message("user", "one"));
  // A named item is stored with the turn: the next turn does not need its first response.
  const Reply items =
      gateway.ask(get(std::string(kPath) + "/" + second["id"].get<std::string>() + "/input_items"));
  EXPECT_EQ(json::parse(items.body)["data"][0]["content"], "one") << items.body;
}

TEST_F(Responses, ItemReference_WhenMissingOrOfAnotherTenant_ReturnsTheSameError) {
  take_keys();
  const json made = turn("secret", json::object(), as("a"));
  ASSERT_EQ(status, 200) << made.dump();
  const auto refused = [&](const std::string& id, const std::string& key) {
    const json input =
        json::array({message("user", "x"), {{"type", "item_reference"}, {"id", id}}});
    std::string text = turn(input, json::object(), as(key)).dump();
    const std::size_t at = text.find(id);
    return at == std::string::npos ? text : text.replace(at, id.size(), "ID");
  };
  const std::string id = made["output"][0]["id"];
  const std::string theirs = refused(id, "b");
  EXPECT_EQ(status, 400);
  EXPECT_NE(theirs.find("input[1]"), std::string::npos) << theirs;
  EXPECT_EQ(theirs, refused("msg_resp_none", "b"));
  EXPECT_EQ(theirs, refused("x", "b"));
  EXPECT_EQ(theirs, refused("fc_", "b"));
  refused(id, "a");
  EXPECT_EQ(status, 200);
  // Another caller cannot compact it either.
  const auto compact = [&](const std::string& previous) {
    const json body = {{"model", "m"}, {"previous_response_id", previous}};
    std::string text = ask(kCompact, body, as("b")).dump();
    const std::size_t at = text.find(previous);
    return at == std::string::npos ? text : text.replace(at, previous.size(), "ID");
  };
  EXPECT_EQ(compact(made["id"]), compact("resp_none"));
  EXPECT_EQ(status, 400);
}

TEST_F(Responses, ItemReferences_WhenTooManyOrTooLong_AreRefused) {
  json input = json::array();
  for (int i = 0; i < 101; ++i) {
    // Each of them exists, so the next one is looked for.
    input.push_back({{"id", turn("x")["output"][0]["id"]}});
  }
  const json refused = turn(input)["error"];
  EXPECT_EQ(refused["param"], "input[100]") << refused.dump();
  input.erase(0);
  turn(input);
  EXPECT_EQ(status, 200);
  gateway.context().params.conversation_bytes = 13'000;
  const json long_one = turn(std::string(5'000, 'a'));
  const json same = {{"id", "item_" + long_one["id"].get<std::string>() + "_0"}};
  EXPECT_EQ(turn(json::array({same, same}))["error"]["param"], "input[1]");
}

TEST_F(Responses, Compaction_WhenUsedAsInput_ReplacesTheConversation) {
  const json first = turn("Who is there?");
  gateway.client.script.token_bytes = {{"A ", "greeting", "."}};
  const json made = ask(kCompact, {{"model", "m"},
                                   {"input", "And you?"},
                                   {"instructions", "Be kind."},
                                   {"previous_response_id", first["id"]},
                                   {"tools", json::array()}});
  ASSERT_EQ(status, 200) << made.dump();
  EXPECT_EQ(made["object"], "response.compaction");
  EXPECT_TRUE(made["created_at"].is_number_integer());
  EXPECT_EQ(made["usage"]["output_tokens"], 3);
  EXPECT_EQ(made["usage"]["total_tokens"], 10);
  ASSERT_EQ(made["output"].size(), 3u) << made.dump();
  for (const auto& [at, text] : {std::pair{0, "Who is there?"}, {1, "And you?"}}) {
    const json& item = made["output"][at];
    EXPECT_EQ(item["type"], "message");
    EXPECT_EQ(item["role"], "user");
    EXPECT_EQ(item["content"], json::array({{{"type", "input_text"}, {"text", text}}}));
    EXPECT_TRUE(item["id"].get<std::string>().starts_with("msg_")) << item.dump();
  }
  const json item = made["output"][2];
  EXPECT_EQ(item["type"], "compaction");
  EXPECT_TRUE(item["id"].get<std::string>().starts_with("cmp_"));
  const wire::Submit submitted = gateway.client.last_submit();
  EXPECT_EQ(submitted.request_id, made["id"]);
  EXPECT_EQ(submitted.sampling.temperature, 0);
  EXPECT_EQ(submitted.max_tokens, 2'048);
  const json sent_messages = messages();
  EXPECT_EQ(sent_messages[0], message("system", "Be kind."));
  EXPECT_EQ(sent_messages[2], message("assistant", "Hello"));
  const std::string last = sent_messages.back()["content"];
  EXPECT_TRUE(last.starts_with("And you?\n\nSummarise ")) << last;

  // The answer is the input of what follows, alone or within a history.
  json next = made["output"];
  next.push_back(message("user", "Go on"));
  turn(next);
  ASSERT_EQ(status, 200);
  const json later = messages();
  ASSERT_EQ(later.size(), 4u) << later.dump();
  EXPECT_EQ(later[2], message("assistant", "Summary of the conversation so far:\n\nA greeting."));
  json alone = item;
  alone["type"] = "compaction_summary";
  turn(json::array({alone}));
  EXPECT_EQ(messages(), json::array({later[2]}));
  // The result may be compacted again: one summary is enough.
  const json again = ask(kCompact, {{"model", "m"}, {"input", next}});
  EXPECT_EQ(again["output"].size(), 4u) << again.dump();
}

TEST_F(Responses, CompactionItem_WhenContentIsMalformed_IsRefusedByName) {
  const auto refused = [&](const json& content) {
    const json item = {{"type", "compaction"}, {"id", "cmp_1"}, {"encrypted_content", content}};
    const json error = turn(json::array({message("user", "x"), item}))["error"];
    EXPECT_EQ(status, 400) << content.dump();
    return error["param"];
  };
  // {"v":1,"summary":"a"}, then contents that are incomplete or other.
  const std::string good = "eyJ2IjoxLCJzdW1tYXJ5IjoiYSJ9";
  const json fine = {{"type", "compaction"}, {"encrypted_content", good}};
  turn(json::array({fine}));
  EXPECT_EQ(status, 200);
  for (const json& content :
       {json(good.substr(0, 20)), json(good + "="), json(""), json(), json(7), json("gAAAAABo+/="),
        json("e30"), json("eyJ2IjoyLCJzdW1tYXJ5IjoiYSJ9"), json("eyJ2IjoxLCJzdW1tYXJ5IjoxfQ")}) {
    EXPECT_EQ(refused(content), "input[1].encrypted_content");
  }
}

TEST_F(Responses, Compaction_WhenContextIsShort_UsesTheRemainingTokens) {
  gateway.client.context_left = 100;
  ask(kCompact, {{"model", "m"}, {"input", "a"}});
  EXPECT_EQ(status, 200);
  EXPECT_EQ(gateway.client.last_submit().max_tokens, 100);
  ask(kCompact, {{"model", "m"}, {"input", "a"}, {"max_output_tokens", 70}});
  EXPECT_EQ(gateway.client.last_submit().max_tokens, 70);
  gateway.client.context_left = 10;
  const json refused = ask(kCompact, {{"model", "m"}, {"input", "a"}})["error"];
  EXPECT_EQ(status, 400);
  EXPECT_EQ(refused["code"], "context_length_exceeded") << refused.dump();
}

TEST_F(Responses, Compaction_WithSameIdempotencyKey_IsMadeOnce) {
  const std::string key = "Idempotency-Key: k1\r\n";
  const json body = {{"model", "m"}, {"input", "a"}, {"tool_choice", "none"}};
  const Reply first = gateway.ask(post(kCompact, body.dump(), key));
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(first.headers.at("x-holdfast-ignored"), "tool_choice");
  const json made = json::parse(first.body);
  EXPECT_EQ(gateway.client.last_submit().on_disconnect, wire::OnDisconnect::kContinue);
  EXPECT_EQ(gateway.client.last_submit().request_id, made["id"]);
  EXPECT_EQ(ask(kCompact, body, key)["id"], made["id"]);
  EXPECT_NE(ask(kCompact, body)["id"], made["id"]);
  ask(kCompact, body, "X-On-Disconnect: never\r\n");
  EXPECT_EQ(status, 400);
  ask(kCompact, body, "Last-Event-ID: resp_k1.0\r\n");
  EXPECT_EQ(status, 422);
}

TEST_F(Responses, CompactionRequest_WhenInvalid_NamesTheParameter) {
  const auto wrong = [&](const json& change) {
    json body = {{"model", "m"}, {"input", "a"}};
    body.update(change);
    return ask(kCompact, body)["error"].value("param", std::string());
  };
  EXPECT_EQ(wrong({{"input", nullptr}}), "input");
  EXPECT_EQ(wrong({{"input", json::array()}}), "input");
  EXPECT_EQ(wrong({{"model", 7}}), "model");
  EXPECT_EQ(wrong({{"max_output_tokens", 0}}), "max_output_tokens");
  const json gone = ask(kCompact, {{"model", "m"}, {"previous_response_id", "resp_none"}})["error"];
  EXPECT_EQ(status, 400);
  EXPECT_EQ(gone["code"], "previous_response_not_found");
  gateway.client.script.token_bytes = {{}};
  const json empty = ask(kCompact, {{"model", "m"}, {"input", "a"}})["error"];
  EXPECT_EQ(status, 500);
  EXPECT_NE(empty["message"].get<std::string>().find("no summary"), std::string::npos);
}

TEST_F(Responses, Response_WithPreviousIdAndNoInput_ContinuesTheConversation) {
  const json first = turn("one");
  const json second = ask(kPath, {{"model", "m"}, {"previous_response_id", first["id"]}});
  ASSERT_EQ(status, 200) << second.dump();
  EXPECT_EQ(messages(), json::array({message("user", "one"), message("assistant", "Hello")}));
  EXPECT_EQ(turn(nullptr)["error"]["param"], "input");
}

}  // namespace
}  // namespace holdfast::test::responses_test
