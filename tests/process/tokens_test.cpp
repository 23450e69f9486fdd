// Goal: /tokenize and /detokenize give what `holdfast tokenize` and `detokenize` give for the
// model's file, in the forms of vLLM and of llama-server; errors are reported; nothing is stored; a
// helper that dies does not matter. Method: `holdfast serve` with the demo model in a folder with a
// chat template.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::tokens_test {
namespace {

using nlohmann::json;

class Tokens : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_program({"holdfast", "convert", demo_model(), folder}).code, 0);
    // Texts then have a token that begins them.
    json tokenizer = json::parse(read_file(folder + "/tokenizer.json"));
    tokenizer["post_processor"] = json::parse(R"({"type":"TemplateProcessing","single":[
        {"SpecialToken":{"id":"<|endoftext|>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
        "pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":0}}],
        "special_tokens":{"<|endoftext|>":
            {"id":"<|endoftext|>","ids":[1023],"tokens":["<|endoftext|>"]}}})");
    dir.write("model/tokenizer.json", tokenizer.dump());
    dir.write("model/chat_template.jinja",
              "{%- for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}");
    setenv("HOLDFAST_CRASH_AT", ("@" + dir.path() + "/crash").c_str(), 1);
    ASSERT_TRUE(server.start({"--model", "m=" + folder, "--threads", "1", "--ingress", "1"}))
        << server.errors();
  }
  json ask(const std::string& path, const json& body, int status = 200) const {
    const HttpAnswer answer = http_exchange(
        server.url(),
        http_post_text(path, body.dump(-1, ' ', false, json::error_handler_t::replace)));
    EXPECT_EQ(answer.status, status) << answer.body;
    return json::parse(answer.body, nullptr, false);
  }
  json refused(const std::string& path, const json& body, int status = 400) const {
    return ask(path, body, status)["error"];
  }
  json by_cli(const std::string& text, bool special) const {
    std::vector<std::string> args = {"holdfast", "tokenize", folder, "--input", text, "--json"};
    if (!special) args.push_back("--no-bos");
    const Ended ended = run_program(args);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return json::parse(ended.out)["ids"];
  }

  const TempDir dir;
  const std::string folder = dir.path() + "/model";
  TestServer server{dir.path() + "/state"};
};

TEST_F(Tokens, Tokenize_GivesTheIdsOfTheModelsVocabulary) {
  std::string all = "To be, or not\n\tto be? Grüße 你好 🦉 \"\\u0000\" ";
  for (int i = 0; i < 2'000; ++i) all += "word" + std::to_string(i) + " ";
  for (const std::string& text : {std::string("a"), std::string(" Hello  world"), all}) {
    const json expected = by_cli(text, true);
    json answer = ask("/tokenize", {{"model", "m"}, {"prompt", text}});
    EXPECT_EQ(answer["tokens"], expected);
    EXPECT_EQ(answer["count"], expected.size());
    EXPECT_EQ(answer["max_model_len"], 512);
    EXPECT_TRUE(answer["token_strs"].is_null());
    const json plain = by_cli(text, false);
    EXPECT_EQ(expected.size(), plain.size() + 1);
    EXPECT_EQ(ask("/tokenize", {{"content", text}})["tokens"], plain) << "llama-server's form";
    EXPECT_EQ(ask("/tokenize", {{"content", text}, {"add_special", true}})["tokens"], expected);
    EXPECT_EQ(ask("/tokenize", {{"prompt", text}, {"add_special_tokens", false}})["tokens"], plain);

    const json back = ask("/detokenize", {{"model", "m"}, {"tokens", plain}});
    const Ended cli = run_program(
        {"holdfast", "detokenize", folder, "--input", dir.write("ids", plain.dump()), "--json"});
    EXPECT_EQ(cli.code, 0) << cli.err;
    EXPECT_EQ(back["prompt"], text);
    EXPECT_EQ(back["content"], text);
    EXPECT_EQ(json::parse(cli.out)["text"], text);
  }
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Tokens, Tokenize_WithTokenTexts_ReturnsTextsThatJoinToTheInput) {
  const std::string owl = "a\xf0\x9f\xa6\x89";
  json answer = ask("/tokenize", {{"content", owl}, {"with_pieces", true}});
  std::string joined;
  for (const json& token : answer["tokens"]) {
    if (token["piece"].is_string()) {
      joined += token["piece"].get<std::string>();
    } else {
      for (const json& byte : token["piece"]) joined += static_cast<char>(byte.get<int>());
    }
  }
  EXPECT_EQ(joined, owl);
  answer = ask("/tokenize", {{"content", "To be"}, {"return_token_strs", true}});
  ASSERT_EQ(answer["token_strs"].size(), answer["tokens"].size());
  joined.clear();
  for (const json& text : answer["token_strs"]) joined += text.get<std::string>();
  EXPECT_EQ(joined, "To be");
  EXPECT_EQ(ask("/tokenize", {{"content", ""}})["tokens"], json::array());
  EXPECT_EQ(ask("/detokenize", {{"tokens", json::array()}})["content"], "");
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Tokens, Tokenize_WithChatMessages_GivesThePromptTokens) {
  const json messages = {{{"role", "system"}, {"content", "Speak."}},
                         {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "Hi"}}}}}};
  const json answer = ask("/tokenize", {{"model", "m"}, {"messages", messages}});
  EXPECT_EQ(answer["tokens"], by_cli("system: Speak.\nuser: Hi\n", false));
  const json chat =
      ask("/v1/chat/completions", {{"model", "m"}, {"messages", messages}, {"max_tokens", 1}});
  EXPECT_EQ(chat["usage"]["prompt_tokens"], answer["count"]);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Tokens, Tokenize_WithAnInvalidField_IsRefusedNamingIt) {
  EXPECT_EQ(refused("/tokenize", {{"model", "m"}})["param"], "prompt");
  EXPECT_EQ(refused("/tokenize", {{"prompt", "a"}, {"content", "a"}})["param"], "prompt");
  EXPECT_EQ(refused("/tokenize", {{"prompt", 7}})["param"], "prompt");
  EXPECT_EQ(refused("/tokenize", {{"model", "m"}, {"messages", 7}})["param"], "messages");
  EXPECT_EQ(refused("/tokenize", {{"model", "x"}, {"prompt", "a"}}, 404)["code"],
            "model_not_found");
  EXPECT_EQ(refused("/detokenize", {{"tokens", {1, -1}}})["param"], "tokens");
  EXPECT_EQ(refused("/detokenize", {{"tokens", {1, "a"}}})["param"], "tokens");
  EXPECT_EQ(refused("/detokenize", {{"tokens", {1, 2'000'000}}})["code"], "invalid_request");
  EXPECT_EQ(server.cli({"models", "add", "second", folder}).code, 0);
  EXPECT_EQ(refused("/tokenize", {{"prompt", "a"}})["code"], "invalid_request") << "which of two?";
  EXPECT_EQ(server.cli({"models", "alias", "both", "--to", "second=1,m=3"}).code, 0);
  EXPECT_EQ(ask("/tokenize", {{"model", "both"}, {"prompt", "a"}})["tokens"], by_cli("a", true));
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Tokens, Tokenize_WhenAnIngressHelperDies_GivesTheSameTokens) {
  const json expected = by_cli("To be", true);
  const auto fired = [this] { return read_file(dir.path() + "/crash.fired"); };
  for (const char* point : {"ingress.prepare.before", "ingress.prepare.after"}) {
    const std::string before = fired();
    // The next helper to start dies over a question.
    const std::string order = dir.write("crash.ingress", point);
    ASSERT_TRUE(server.kill_child("ingress-0"));
    for (int i = 0; i < 1'000 && access(order.c_str(), F_OK) == 0; ++i) usleep(10'000);
    for (int i = 0; i < 1'000 && fired() == before; ++i) {
      EXPECT_EQ(ask("/tokenize", {{"model", "m"}, {"prompt", "To be"}})["tokens"], expected);
    }
    EXPECT_NE(fired(), before) << point;
  }
  const json requests = json::parse(server.cli({"requests", "list", "--json"}).out);
  EXPECT_TRUE(requests["requests"].empty()) << "nothing of this is a request";
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::tokens_test
