// Goal: Ollama's API is Ollama's: what bodies become in a SUBMIT, lines of a stream, documents,
// calls, lists of models, errors. Method: a gateway over a fake daemon with scripted tokens.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "control/gateway/ollama/ollama_body.h"
#include "tests/http/http_peer.h"

namespace holdfast::test::ollama_test {
namespace {

using nlohmann::json;

const std::string kChat = R"({"model":"m","messages":[{"role":"user","content":"a"}])";

class Ollama : public testing::Test {
 protected:
  void SetUp() override { gateway.context().operating = &gateway.client; }
  void model(const std::string& output) {
    wire::ModelInfo info;
    info.name = "m";
    info.state = "ready";
    info.output = output;
    gateway.client.model_list = {info};
    gateway.client.op_results["models.show"] =
        R"({"name":"m","profile":{"template":"T","system":"S","parameters":{"stop":["a","b"],)"
        R"("repetition_penalty":1.5}}})";
    gateway.client.op_results["models.list"] =
        R"([{"name":"m","architecture":"llama","context":2048,"vocab":128,"size_bytes":77,)"
        R"("sha":"aa","makes":"text","output":")" +
        output + R"(","state":"ready","created_ms":1700000000123},)" +
        R"({"name":"v","architecture":"bert","makes":"vectors","state":"unloaded"}])";
  }
  static std::vector<json> lines_of(const std::string& body) {
    std::vector<json> out;
    std::istringstream in(body);
    for (std::string line; std::getline(in, line);) out.push_back(json::parse(line));
    return out;
  }
  Gateway gateway;
};

TEST_F(Ollama, Chat_WhenStreamed_IsLinesOfJsonWithAnEnd) {
  model("");
  gateway.client.script.token_bytes = {{"Hel", "lo", "!"}};
  gateway.client.script.finish = wire::FinishReason::kStop;
  const Reply reply = gateway.ask(post("/api/chat", kChat + "}"));
  EXPECT_EQ(reply.headers.at("content-type"), "application/x-ndjson");
  const std::vector<json> lines = lines_of(reply.body);
  ASSERT_GE(lines.size(), 2u) << reply.body;
  std::string text;
  for (const json& line : lines) {
    EXPECT_EQ(line["model"], "m");
    EXPECT_EQ(line["message"]["role"], "assistant");
    text += line["message"]["content"].get<std::string>();
  }
  EXPECT_EQ(text, "Hello!");
  EXPECT_EQ(lines.front()["done"], false);
  const json& last = lines.back();
  EXPECT_EQ(last["done"], true);
  EXPECT_EQ(last["done_reason"], "stop");
  EXPECT_EQ(last["eval_count"], 3);
  EXPECT_TRUE(last["total_duration"].is_number_integer());
  EXPECT_EQ(last["load_duration"], 0);  // some libraries want it
}

TEST_F(Ollama, Stream_WhileItsRequestWaits_SaysWhereItStands) {
  model("");
  gateway.client.script.token_bytes = {{"Hi"}};
  gateway.client.hold_tokens = true;
  gateway.client.queue_position = 7;
  for (const char* path : {"/api/chat", "/api/generate"}) {
    gateway.client.queue_position = 7;
    const bool chat = std::string(path) == "/api/chat";
    Peer peer(gateway.address());
    peer.send(post(path, chat ? kChat + "}" : R"({"model":"m","prompt":"a"})"));
    const Reply head = peer.read_until("\"queue_position\":7");
    gateway.client.queue_position = 2;
    const std::string moved = peer.read_on("\"queue_position\":2");
    gateway.client.commit(head.headers.at("x-request-id"), 1, true);
    const std::vector<json> lines = lines_of(head.body + moved + peer.read_on());
    ASSERT_GE(lines.size(), 4u);
    EXPECT_EQ(lines[0]["eta_ms"], 800);
    EXPECT_EQ(lines[1]["queue_position"], 2) << "one line for each change";
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(lines[i]["done"], false);
      EXPECT_EQ(chat ? lines[i]["message"]["content"] : lines[i]["response"], "");
    }
    EXPECT_FALSE(lines.back().contains("queue_position"));
    EXPECT_EQ(lines.back()["done"], true);
  }
}

TEST_F(Ollama, Chat_WithoutAStream_IsOneDocumentWithThinkingAndCalls) {
  model("hermes+think");
  gateway.client.script.finish = wire::FinishReason::kStop;
  gateway.client.script.token_bytes = {{"<think>", "hm", "</think>", "Look", "\n<tool_", "call>",
                                        "{\"name\": \"f\", ", "\"arguments\": {\"x\"", ": 1}}",
                                        "</tool_call>"}};
  const std::string tools =
      R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{}}}])";
  const json whole =
      json::parse(gateway.ask(post("/api/chat", kChat + tools + R"(,"stream":false})")).body);
  EXPECT_EQ(whole["message"]["thinking"], "hm");
  EXPECT_EQ(whole["message"]["content"], "Look");
  ASSERT_EQ(whole["message"]["tool_calls"].size(), 1u) << whole.dump();
  const json& call = whole["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(call["name"], "f");
  EXPECT_EQ(call["arguments"], json::parse(R"({"x":1})"));
  EXPECT_EQ(whole["done"], true);

  std::size_t calls = 0;
  for (const json& line : lines_of(gateway.ask(post("/api/chat", kChat + tools + "}")).body)) {
    if (!line["message"].contains("tool_calls")) continue;
    ++calls;
    EXPECT_EQ(line["message"]["tool_calls"][0]["function"]["arguments"], json::parse(R"({"x":1})"));
  }
  EXPECT_EQ(calls, 1u);
}

TEST_F(Ollama, Generate_WithASystem_IsAConversationOfOneTurn) {
  model("");
  gateway.client.script.token_bytes = {{"Hi"}};
  const json whole =
      json::parse(gateway
                      .ask(post("/api/generate",
                                R"({"model":"m:latest","prompt":"a","system":"s","stream":false})"))
                      .body);
  EXPECT_EQ(whole["response"], "Hi");
  EXPECT_EQ(whole["model"], "m");
  EXPECT_EQ(whole["done_reason"], "length");
  const wire::Submit submit = gateway.client.last_submit();
  ASSERT_EQ(submit.prompts.size(), 1u);
  const json messages = json::parse(*submit.prompts[0].messages_json)["messages"];
  EXPECT_EQ(messages, json::parse(R"([{"role":"system","content":"s"},)"
                                  R"({"role":"user","content":"a"}])"));
}

TEST_F(Ollama, Generate_WhenRaw_SendsThePromptAsItIs) {
  model("");
  gateway.client.script.token_bytes = {{"Hi"}};
  const Reply reply = gateway.ask(
      post("/api/generate", R"({"model":"m","prompt":"<s>a","raw":true,"stream":false})"));
  EXPECT_EQ(json::parse(reply.body)["response"], "Hi");
  const wire::Submit submit = gateway.client.last_submit();
  EXPECT_EQ(submit.prompts[0].text, "<s>a");
  EXPECT_FALSE(submit.max_tokens.has_value());  // as much as fits, not OpenAI's 16
}

TEST_F(Ollama, Options_OfARequest_BecomeSamplingParametersWithOllamasDefaults) {
  model("");
  (void)gateway.ask(post("/api/chat", kChat + "}"));
  wire::Submit submit = gateway.client.last_submit();
  EXPECT_FLOAT_EQ(submit.sampling.temperature, 0.8f);
  EXPECT_FLOAT_EQ(submit.sampling.top_p, 0.9f);
  EXPECT_EQ(submit.sampling.top_k, 40);
  EXPECT_FLOAT_EQ(submit.sampling.repetition_penalty, 1.1f);
  EXPECT_FALSE(submit.max_tokens.has_value());

  const Reply reply = gateway.ask(
      post("/api/chat", kChat + R"(,"keep_alive":"5m","options":{"temperature":0,"num_predict":7,)"
                                R"("seed":5,"stop":["x"],"num_ctx":4096,"repeat_penalty":1.3}})"));
  submit = gateway.client.last_submit();
  EXPECT_FLOAT_EQ(submit.sampling.temperature, 0);
  EXPECT_EQ(submit.max_tokens, 7);
  EXPECT_EQ(submit.sampling.seed, 5u);
  EXPECT_EQ(submit.stops, std::vector<std::string>{"x"});
  EXPECT_FLOAT_EQ(submit.sampling.repetition_penalty, 1.3f);
  const std::string ignored = reply.headers.at("x-holdfast-ignored");
  EXPECT_EQ(ignored.find("keep_alive"), std::string::npos) << ignored;
  EXPECT_EQ(submit.keep_alive_ms, 300'000);
  EXPECT_NE(ignored.find("options.num_ctx"), std::string::npos) << ignored;
}

TEST_F(Ollama, Request_WithoutContent_LoadsTheModel) {
  model("");
  gateway.client.script.token_bytes = {{"x"}};
  const json chat =
      json::parse(gateway.ask(post("/api/chat", R"({"model":"m","messages":[]})")).body);
  EXPECT_EQ(chat["done_reason"], "load");
  EXPECT_EQ(chat["message"]["content"], "");
  EXPECT_EQ(gateway.client.last_submit().max_tokens, 1);
  const json generate = json::parse(gateway.ask(post("/api/generate", R"({"model":"m"})")).body);
  EXPECT_EQ(generate["done_reason"], "load");
  EXPECT_EQ(generate["response"], "");
}

TEST_F(Ollama, KeepAlive_InAnyForm_IsTimeAfterTheRequest) {
  model("");
  const auto sent = [&](const std::string& value) {
    gateway.client.script.token_bytes = {{"x"}};
    const Reply reply = gateway.ask(post("/api/chat", kChat + R"(,"keep_alive":)" + value + "}"));
    EXPECT_EQ(reply.status, 200) << value << reply.body;
    return gateway.client.last_submit().keep_alive_ms.value_or(-2);
  };
  EXPECT_EQ(sent("300"), 300'000);
  EXPECT_EQ(sent("0.5"), 500);
  EXPECT_EQ(sent("-1"), -1);
  EXPECT_EQ(sent("0"), 0);
  EXPECT_EQ(sent(R"("5m")"), 300'000);
  EXPECT_EQ(sent(R"("1h30m")"), 5'400'000);
  EXPECT_EQ(sent(R"("1.5h")"), 5'400'000);
  EXPECT_EQ(sent(R"("250ms")"), 250);
  EXPECT_EQ(sent(R"("-1m")"), -1);
  EXPECT_EQ(sent(R"("300")"), 300'000);
  EXPECT_EQ(sent(R"("99999999h")"), 31'536'000'000);
  for (const char* wrong : {R"("five")", R"("5x")", R"("")", R"("-")", R"("5m5")", "true", "[]",
                            R"("1e3s")", R"("1h-5m")"}) {
    const Reply reply = gateway.ask(post("/api/chat", kChat + R"(,"keep_alive":)" + wrong + "}"));
    EXPECT_EQ(reply.status, 400) << wrong;
    EXPECT_NE(reply.body.find("keep_alive"), std::string::npos) << reply.body;
  }
  const json chat = {{"model", "m"},
                     {"messages", json::array({{{"role", "user"}, {"content", "a"}}})},
                     {"keep_alive", "10s"}};
  EXPECT_EQ(gateway.ask(post("/v1/chat/completions", chat.dump())).status, 200);
  EXPECT_EQ(gateway.client.last_submit().keep_alive_ms, 10'000);
}

TEST_F(Ollama, Request_WithoutContentAndKeepAliveZero_UnloadsTheModel) {
  model("");
  gateway.client.op_results["models.keep_alive"] = "{}";
  const json generate = json::parse(
      gateway.ask(post("/api/generate", R"({"model":"m:latest","keep_alive":0})")).body);
  EXPECT_EQ(generate["done_reason"], "unload");
  EXPECT_EQ(generate["response"], "");
  EXPECT_EQ(json::parse(gateway.client.op_args("models.keep_alive")),
            json::parse(R"({"name":"m","ms":0,"client":true})"));
  const json chat = json::parse(
      gateway.ask(post("/api/chat", R"({"model":"m","messages":[],"keep_alive":"0s"})")).body);
  EXPECT_EQ(chat["done_reason"], "unload");
  EXPECT_EQ(chat["message"]["content"], "");
  EXPECT_EQ(gateway.ask(post("/api/generate", R"({"model":7,"keep_alive":0})")).status, 400);
  EXPECT_EQ(gateway.ask(post("/api/generate", R"({"keep_alive":0})")).status, 400);
}

TEST_F(Ollama, Names_OfModels_AreCopiedAndDeletedByOperators) {
  model("");
  gateway.client.op_results["models.show"] =
      R"({"name":"m","path":"/models/m.gguf","context":2048,"slots":4,"kv_type":"f16",)"
      R"("options":""})";
  gateway.client.op_results["models.add"] = "{}";
  EXPECT_EQ(gateway.ask(post("/api/copy", R"({"source":"m","destination":"other:latest"})")).status,
            200);
  EXPECT_EQ(json::parse(gateway.client.op_args("models.add")),
            json::parse(R"({"name":"other","path":"/models/m.gguf","context":2048,"slots":4,)"
                        R"("kv_type":"f16","options":""})"));
  const Reply created = gateway.ask(post("/api/create", R"({"model":"third","from":"m"})"));
  EXPECT_EQ(lines_of(created.body).back()["status"], "success");
  EXPECT_EQ(gateway.ask(post("/api/create", R"({"model":"x","from":"m","system":"s"})")).status,
            200);
  EXPECT_EQ(json::parse(gateway.client.op_args("models.add"))["profile"],
            json::parse(R"({"system":"s"})"));
  EXPECT_EQ(gateway.ask(post("/api/copy", R"({"source":"m"})")).status, 400);
  EXPECT_EQ(gateway.ask(post("/api/copy", R"({"source":7,"destination":"x"})")).status, 400);

  gateway.client.op_results["models.unload"] = gateway.client.op_results["models.remove"] = "{}";
  const std::string body = R"({"model":"other"})";
  const Reply deleted =
      gateway.ask("DELETE /api/delete HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n" + body);
  EXPECT_EQ(deleted.status, 200);
  EXPECT_EQ(json::parse(gateway.client.op_args("models.remove")),
            json::parse(R"({"name":"other"})"));
}

TEST_F(Ollama, WrongRequest_OnEachRoute_IsRefusedInOllamasForm) {
  model("");
  const auto error = [&](const std::string& path, const std::string& body, int status) {
    const Reply reply = gateway.ask(post(path, body));
    EXPECT_EQ(reply.status, status) << path << body << reply.body;
    return json::parse(reply.body).value("error", std::string());
  };
  EXPECT_NE(error("/api/chat", R"({"messages":[{"role":"user","content":"a"}]})", 400), "");
  EXPECT_NE(error("/api/chat",
                  R"({"model":"m","messages":[{"role":"user","content":"a","images":["x"]}]})", 400)
                .find("text only"),
            std::string::npos);
  EXPECT_NE(error("/api/generate", R"({"model":"m","prompt":"a","suffix":"b"})", 400), "");
  EXPECT_NE(error("/api/chat", kChat + R"(,"think":"much"})", 400), "");
  EXPECT_NE(error("/api/chat", kChat + R"(,"options":{"num_predict":0}})", 400), "");
  EXPECT_NE(error("/api/show", R"({"model":"nobody"})", 404).find("not found"), std::string::npos);
  EXPECT_NE(error("/api/push", R"({"model":"m"})", 501).find("models show"), std::string::npos);
  EXPECT_NE(error("/api/chat", "no json", 400), "");
}

TEST_F(Ollama, Models_InListsAndDetails_HaveOllamasMembers) {
  model("hermes+think");
  EXPECT_EQ(gateway.ask(get("/")).body, "Holdfast is running");
  EXPECT_TRUE(json::parse(gateway.ask(get("/api/version")).body)["version"].is_string());
  const json tags = json::parse(gateway.ask(get("/api/tags")).body)["models"];
  ASSERT_EQ(tags.size(), 2u);
  EXPECT_EQ(tags[0]["name"], "m");
  EXPECT_EQ(tags[0]["size"], 77);
  EXPECT_EQ(tags[0]["modified_at"], "2023-11-14T22:13:20.123Z");
  EXPECT_EQ(tags[0]["details"]["family"], "llama");
  const json running = json::parse(gateway.ask(get("/api/ps")).body)["models"];
  ASSERT_EQ(running.size(), 1u);
  EXPECT_EQ(running[0]["context_length"], 2048);
  const json details = json::parse(gateway.ask(post("/api/show", R"({"model":"m:latest"})")).body);
  EXPECT_EQ(details["capabilities"], json::parse(R"(["completion","tools","thinking"])"));
  EXPECT_EQ(details["model_info"]["llama.context_length"], 2048);
  EXPECT_EQ(details["system"], "S");
  EXPECT_EQ(details["template"], "T");
  EXPECT_EQ(details["parameters"],
            "stop                           \"a\"\nstop                           \"b\"\n"
            "repeat_penalty                 1.5");
  EXPECT_EQ(details["modelfile"],
            "FROM m\nTEMPLATE \"\"\"T\"\"\"\nSYSTEM \"\"\"S\"\"\"\nPARAMETER stop \"a\"\n"
            "PARAMETER stop \"b\"\nPARAMETER repeat_penalty 1.5\n");
  const json vectors = json::parse(gateway.ask(post("/api/show", R"({"name":"v"})")).body);
  EXPECT_EQ(vectors["capabilities"], json::parse(R"(["embedding"])"));
}

TEST_F(Ollama, Format_AsASchema_IsTheGrammarOfTheRequest) {
  model("");
  (void)gateway.ask(post("/api/chat", kChat + R"(,"format":{"type":"object"}})"));
  EXPECT_NE(gateway.client.last_submit().sampling.extra.find("json_schema"), std::string::npos);
  (void)gateway.ask(post("/api/chat", kChat + R"(,"format":"json"})"));
  EXPECT_NE(gateway.client.last_submit().sampling.extra.find("json_object"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::test::ollama_test
