// Goal: /v1/responses is OpenAI's: objects, typed events, turns of a conversation, background work,
// calls; and it goes on through kills, with every event numbered the same. Method: `holdfast serve`
// with the demo model and a chat template; documents and events are parsed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::responses_test {
namespace {

using nlohmann::json;

constexpr const char* kTemplate =
    "{%- for m in messages %}{{ m.role }}: {{ m.content }}{% if m.tool_calls %}"
    "{{ m.tool_calls | tojson }}{% endif %}\n{% endfor %}"
    "{%- if tools %}{{ tools | tojson }} write <tool_call>{...}</tool_call>{% endif %}";
constexpr const char* kPath = "/v1/responses";

class Responses : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = dir.path() + "/model";
    ASSERT_EQ(run_program({"holdfast", "convert", demo_model(), folder}).code, 0);
    dir.write("model/chat_template.jinja", kTemplate);
    ASSERT_TRUE(server.start({"--model", "m=" + folder, "--threads", "1"})) << server.errors();
  }
  json ask(const std::string& request) {
    HttpAnswer answer;
    for (int i = 0; i < 200; ++i) {
      answer = http_exchange(server.url(), request);
      if (answer.complete && answer.status != 503 && answer.status != 504) break;
      usleep(50'000);
    }
    return json::parse(answer.body, nullptr, false);
  }
  json post(const json& body, const std::string& key = "", const std::string& path = kPath) {
    std::vector<std::pair<std::string, std::string>> headers;
    if (!key.empty()) headers.emplace_back("Idempotency-Key", key);
    return ask(http_post_text(path, body.dump(), headers));
  }
  json get(const std::string& path) { return ask(http_get_text(path)); }
  /// The data of the events in a stream's body.
  static std::vector<json> events_of(const std::string& body) {
    std::vector<json> events;
    std::size_t at = 0;
    while ((at = body.find("data: {", at)) != std::string::npos) {
      const std::size_t end = body.find('\n', at);
      if (end == std::string::npos) break;
      events.push_back(json::parse(body.substr(at + 6, end - at - 6)));
      at = end;
    }
    return events;
  }
  static std::string text_of(const json& response) {
    for (const json& item : response.value("output", json::array())) {
      if (item["type"] == "message") return item["content"][0]["text"];
    }
    return "";
  }

  const TempDir dir;
  TestServer server{dir.path() + "/state"};
};

json request(const std::string& input, int tokens = 24) {
  return {{"model", "m"}, {"input", input},     {"max_output_tokens", tokens},
          {"seed", 3},    {"temperature", 0.7}, {"ignore_eos", true}};
}

TEST_F(Responses, Response_WithPreviousResponseId_ContinuesTheConversation) {
  json body = request("Who is there?");
  body["instructions"] = "Speak.";
  body["metadata"] = {{"a", "b"}};
  const json first = post(body, "k1");
  ASSERT_EQ(first["object"], "response") << first.dump();
  EXPECT_EQ(first["status"], "incomplete");
  EXPECT_EQ(first["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(first["instructions"], "Speak.");
  EXPECT_EQ(first["metadata"], json({{"a", "b"}}));
  EXPECT_EQ(first["usage"]["output_tokens"], 24);
  EXPECT_FALSE(text_of(first).empty());
  EXPECT_EQ(first["output_text"], text_of(first));
  const std::string id = first["id"];
  EXPECT_EQ(post(body, "k1"), first) << "the same POST is the same response";
  body["input"] = "Another";
  EXPECT_EQ(post(body, "k1")["error"]["code"], "idempotency_mismatch");
  EXPECT_EQ(get(std::string(kPath) + "/" + id), first);
  const json items = get(std::string(kPath) + "/" + id + "/input_items");
  ASSERT_EQ(items["data"].size(), 1u) << items.dump();
  EXPECT_EQ(items["data"][0]["content"], "Who is there?");

  body = request("And you?");
  body["previous_response_id"] = id;
  const json second = post(body);
  ASSERT_EQ(second["status"], "incomplete") << second.dump();
  // The conversation is that of a chat, without the instructions of the previous turn.
  const json chat = post({{"model", "m"},
                          {"messages",
                           {{{"role", "user"}, {"content", "Who is there?"}},
                            {{"role", "assistant"}, {"content", text_of(first)}},
                            {{"role", "user"}, {"content", "And you?"}}}},
                          {"max_tokens", 24},
                          {"seed", 3},
                          {"temperature", 0.7},
                          {"ignore_eos", true}},
                         "", "/v1/chat/completions");
  EXPECT_EQ(text_of(second), chat["choices"][0]["message"]["content"]) << chat.dump();
  EXPECT_EQ(second["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);

  const std::string removal =
      "DELETE " + std::string(kPath) + "/" + id + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(ask(removal)["deleted"], true);
  EXPECT_EQ(get(std::string(kPath) + "/" + id)["error"]["code"], "not_found");
  EXPECT_EQ(post(body)["error"]["param"], "previous_response_id");
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Responses, ResponseEvents_WhenAProcessIsKilled_AreNumberedTheSame) {
  json body = request("Say something long", 120);
  const json whole = post(body);
  body["stream"] = true;
  std::vector<json> quiet;
  for (const char* victim : {"", "worker-0", "daemon"}) {
    SCOPED_TRACE(victim);
    bool killed = *victim == '\0';
    std::string received;
    const HttpAnswer answer = http_exchange(
        server.url(),
        http_post_text(kPath, body.dump(), {{"Idempotency-Key", std::string("s") + victim}}),
        [&](const std::string& more) {
          received += more;
          if (!killed && received.find("output_text.delta") != std::string::npos) {
            killed = server.kill_child(victim);
          }
        });
    EXPECT_TRUE(killed);
    std::vector<json> events = events_of(answer.body);
    ASSERT_GT(events.size(), 20u) << answer.body;
    std::string text;
    for (std::size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(events[i]["sequence_number"], i);
      if (events[i]["type"] == "response.output_text.delta") {
        text += events[i]["delta"].get<std::string>();
      }
    }
    EXPECT_EQ(text, text_of(whole));
    EXPECT_EQ(events[0]["type"], "response.created");
    EXPECT_EQ(events[1]["type"], "response.in_progress");
    EXPECT_EQ(events[2]["type"], "response.output_item.added");
    EXPECT_EQ(events[3]["type"], "response.content_part.added");
    const json last = events.back();
    EXPECT_EQ(last["type"], "response.incomplete");
    EXPECT_EQ(text_of(last["response"]), text);
    EXPECT_EQ(events[events.size() - 2]["type"], "response.output_item.done");
    // A stream starts at any event.
    const std::string id = last["response"]["id"];
    for (const std::size_t after : {std::size_t{0}, events.size() / 2, events.size() - 2}) {
      const std::string path =
          std::string(kPath) + "/" + id + "?stream=true&starting_after=" + std::to_string(after);
      const std::vector<json> rest =
          events_of(http_exchange(server.url(), http_get_text(path)).body);
      ASSERT_EQ(rest.size(), events.size() - after - 1);
      EXPECT_TRUE(std::equal(rest.begin(), rest.end(),
                             events.begin() + static_cast<std::ptrdiff_t>(after) + 1));
    }
    // All events, ids excepted, are those of the undisturbed stream.
    if (quiet.empty()) quiet = events;
    ASSERT_EQ(events.size(), quiet.size());
    for (std::size_t i = 4; i < events.size(); ++i) {
      EXPECT_EQ(events[i].value("delta", json()), quiet[i].value("delta", json()));
    }
  }
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Responses, BackgroundResponse_WhenTheGatewayIsKilled_Finishes) {
  json body = request("Later", 60);
  body["background"] = true;
  const json made = post(body);
  ASSERT_TRUE(made["status"] == "queued" || made["status"] == "in_progress") << made.dump();
  const std::string path = std::string(kPath) + "/" + made["id"].get<std::string>();
  ASSERT_TRUE(server.kill_child("gateway"));
  json now;
  for (int i = 0; i < 400; ++i) {
    now = get(path);
    if (now["status"] == "incomplete" || now["status"] == "completed") break;
    usleep(25'000);
  }
  EXPECT_EQ(now["status"], "incomplete") << now.dump();
  EXPECT_EQ(now["background"], true);
  body["background"] = false;
  EXPECT_EQ(text_of(now), text_of(post(body)));
  body["background"] = true;
  body["max_output_tokens"] = 480;
  // A turn may follow one that no client has asked for since it ended.
  const json other = post(body);
  json next = request("Go on");
  next["previous_response_id"] = other["id"];
  const json refused = post(next);
  if (!refused.contains("output")) {
    EXPECT_EQ(refused["error"]["param"], "previous_response_id") << refused.dump();
  }
  const json cancelled = post(
      json::object(), "", std::string(kPath) + "/" + other["id"].get<std::string>() + "/cancel");
  EXPECT_TRUE(cancelled["status"] == "cancelled" || cancelled["status"] == "incomplete")
      << cancelled.dump();
  EXPECT_EQ(post(next)["object"], "response");
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Responses, Compaction_WhenAProcessIsKilled_GivesTheSameSummary) {
  const std::string path = std::string(kPath) + "/compact";
  const json first = post(request("Who is there?"));
  json body = {{"model", "m"},
               {"previous_response_id", first["id"]},
               {"input", "And you?"},
               {"max_output_tokens", 300}};
  const json quiet = post(body, "quiet", path);
  ASSERT_EQ(quiet["object"], "response.compaction") << quiet.dump();
  ASSERT_EQ(quiet["output"].size(), 3u) << quiet.dump();
  EXPECT_EQ(quiet["output"][0]["content"][0]["text"], "Who is there?");
  EXPECT_EQ(quiet["output"][2]["type"], "compaction");
  EXPECT_GT(quiet["usage"]["output_tokens"], 0);
  const auto admin = server.operator_client();
  const auto live = [&] {
    const auto answer = admin->op(client::AllTenants::local(), "queue.stats", "{}");
    const auto* text = std::get_if<std::string>(&answer);
    return text != nullptr && json::parse(*text)["live_requests"] == 1;
  };
  for (const std::string victim : {"gateway", "worker-0", "daemon"}) {
    SCOPED_TRACE(victim);
    json disturbed;
    std::thread asks([&] { disturbed = post(body, "with-" + victim, path); });
    bool is_live = false;
    for (int i = 0; i < 2'000 && !is_live; ++i) is_live = live();
    EXPECT_TRUE(is_live) << "it was over before anything could be killed";
    EXPECT_TRUE(server.kill_child(victim));
    asks.join();
    ASSERT_EQ(disturbed["object"], "response.compaction") << disturbed.dump();
    EXPECT_EQ(disturbed["output"].back()["encrypted_content"],
              quiet["output"].back()["encrypted_content"]);
    for (const char* tokens : {"input_tokens", "output_tokens"}) {  // cached tokens may differ
      EXPECT_EQ(disturbed["usage"][tokens], quiet["usage"][tokens]) << tokens;
    }
    EXPECT_EQ(post(body, "with-" + victim, path), disturbed) << "it was made once";
  }
  body["input"] = "Another";
  EXPECT_EQ(post(body, "quiet", path)["error"]["code"], "idempotency_mismatch");
  // An input that fits no context is refused in OpenAI's words; one that nearly fills it is cut
  // short.
  body["input"] = std::string(200'000, 'a');
  EXPECT_EQ(post(body, "", path)["error"]["code"], "context_length_exceeded");
  json next = request("Go on");
  next["input"] = quiet["output"];
  next["input"].push_back({{"role", "user"}, {"content", "Go on"}});
  const json later = post(next);
  EXPECT_EQ(later["object"], "response") << later.dump();
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Responses, FunctionCall_WithAForcedToolChoice_IsAnOutputItem) {
  json body = request("Look!");
  body.erase("max_output_tokens");  // all that the context holds
  body.erase("ignore_eos");
  body["tools"] = json::parse(
      R"([{"type":"function","name":"look","parameters":{"type":"object","properties":
          {"q":{"type":"string","maxLength":20}},"required":["q"],
          "additionalProperties":false}}])");
  body["tool_choice"] = {{"type", "function"}, {"name", "look"}};
  const json made = post(body);
  ASSERT_EQ(made["status"], "completed") << made.dump();
  ASSERT_EQ(made["output"].size(), 1u);
  const json& call = made["output"][0];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "look");
  EXPECT_TRUE(json::parse(call["arguments"].get<std::string>()).contains("q"));
  json next = request("unused");
  next["previous_response_id"] = made["id"];
  next["input"] = json::array(
      {{{"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "a wall"}}});
  EXPECT_EQ(post(next)["status"], "incomplete");
  body["stream"] = true;
  const auto events =
      events_of(http_exchange(server.url(), http_post_text(kPath, body.dump())).body);
  std::string arguments;
  for (const json& event : events) {
    if (event["type"] == "response.function_call_arguments.delta") arguments += event["delta"];
  }
  EXPECT_EQ(arguments, call["arguments"]);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Responses, Response_WithAnInvalidField_IsRefusedNamingIt) {
  const auto wrong = [&](const json& change) {
    json body = request("x");
    body.update(change);
    return post(body)["error"].value("param", std::string());
  };
  EXPECT_EQ(wrong({{"input", 7}}), "input");
  EXPECT_EQ(wrong({{"input", json::array({{{"type", "image"}}})}}), "input[0].type");
  EXPECT_EQ(wrong({{"input", json::array({{{"role", "robot"}, {"content", "a"}}})}}),
            "input[0].role");
  EXPECT_EQ(wrong({{"tools", json::array({{{"type", "function"}}})}}), "tools[0].name");
  EXPECT_EQ(wrong({{"background", true}, {"store", false}}), "background");
  EXPECT_EQ(wrong({{"previous_response_id", "resp_none"}}), "previous_response_id");
  EXPECT_EQ(wrong({{"temperature", 9}}), "temperature");
  EXPECT_EQ(wrong({{"truncation", "some"}}), "truncation");
  json large = request("x", 100'000);
  const json refused = post(large, "large")["error"];
  EXPECT_EQ(refused["code"], "context_length_exceeded");
  EXPECT_EQ(refused["holdfast_code"], "context_exceeded");
  json stored;
  for (int i = 0; i < 100; ++i) {  // removed after the answer
    stored = json::parse(std::get<std::string>(server.operator_client()->op(
        client::AllTenants::local(), "objects.list", R"({"kind":"response"})")));
    if (stored["objects"].empty()) break;
    usleep(20'000);
  }
  EXPECT_TRUE(stored["objects"].empty()) << "what was refused is not kept: " << stored.dump();
  json unkept = request("x");
  unkept["store"] = false;
  const json made = post(unkept);
  EXPECT_EQ(made["store"], false) << made.dump();
  EXPECT_EQ(get(std::string(kPath) + "/" + made["id"].get<std::string>())["error"]["code"],
            "not_found");
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::responses_test
