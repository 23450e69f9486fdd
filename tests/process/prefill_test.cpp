// Goal: an answer that its messages have begun goes on as if the model had written that beginning
// itself, on every endpoint, and its prompt is counted as it is. Method: `holdfast serve` with the
// demo model; a greedy answer is cut where its two halves have the tokens of the whole, and the
// first half is sent as the last message.

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::prefill_test {
namespace {

using nlohmann::json;

class Prefill : public testing::Test {
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
  json post(const std::string& path, const json& body) {
    const HttpAnswer answer = http_exchange(server_->url(), http_post_text(path, body.dump()));
    EXPECT_EQ(answer.status, 200) << path << body << answer.body;
    return json::parse(answer.body, nullptr, false);
  }
  static json conversation(const std::string& begun) {
    json messages = json::array({{{"role", "user"}, {"content", "Speak, Juliet:"}}});
    if (!begun.empty()) messages.push_back({{"role", "assistant"}, {"content", begun}});
    return {{"model", "demo"}, {"messages", messages}, {"max_tokens", 40}, {"temperature", 0}};
  }
  std::vector<int> ids(const json& body) {
    return post("/tokenize", body)["tokens"].get<std::vector<int>>();
  }
  static json on(json body) {
    body["continue_final_message"] = true;
    return body;
  }
  /// A first part of `text` that has the same tokens, at a prompt's end, as within the whole.
  std::string first_part(const std::string& text, std::int64_t* tokens) {
    const std::vector<int> before = ids(conversation(""));
    const std::vector<int> whole = ids(on(conversation(text)));
    for (std::size_t cut = text.size() / 2; cut + 10 < text.size(); ++cut) {
      const std::string part = text.substr(0, cut);
      if (std::isspace(static_cast<unsigned char>(part.back())) != 0) continue;
      const std::vector<int> begun = ids(on(conversation(part)));
      if (begun.size() >= whole.size() || begun.size() <= before.size()) continue;
      *tokens = static_cast<std::int64_t>(begun.size() - before.size());
      if (std::equal(begun.begin(), begun.end(), whole.begin())) return part;
    }
    return {};
  }

  TempDir dir_;
  std::unique_ptr<TestServer> server_;
};

TEST_F(Prefill, AssistantPrefill_OnEveryEndpoint_ContinuesWhereTheMessageEnds) {
  const json answer = post("/v1/chat/completions", conversation(""));
  const auto text = answer["choices"][0]["message"]["content"].get<std::string>();
  std::int64_t tokens = 0;
  const std::string part = first_part(text, &tokens);
  ASSERT_FALSE(part.empty()) << text;
  const std::string rest = text.substr(part.size());
  json body = conversation(part);
  body["max_tokens"] = 40 - tokens;
  const json prompt_tokens = static_cast<int>(ids(on(body)).size());

  const json chat = post("/v1/chat/completions", on(body));
  EXPECT_EQ(chat["choices"][0]["message"]["content"], rest);
  EXPECT_EQ(chat["usage"]["prompt_tokens"], prompt_tokens);
  const json message = post("/v1/messages", body);
  EXPECT_EQ(message["content"][0]["text"], rest);
  EXPECT_EQ(message["usage"]["input_tokens"], prompt_tokens);
  EXPECT_EQ(post("/v1/messages/count_tokens", body)["input_tokens"], prompt_tokens);
  json items = on({{"model", "demo"},
                   {"input", body["messages"]},
                   {"max_output_tokens", body["max_tokens"]},
                   {"temperature", 0}});
  const json response = post("/v1/responses", items);
  EXPECT_EQ(response["output_text"], rest);
  EXPECT_EQ(post("/v1/responses/input_tokens", items)["input_tokens"], prompt_tokens);

  // Without the flag a last message of the assistant is a turn of its own.
  const json turn = post("/v1/chat/completions", body);
  EXPECT_GT(turn["usage"]["prompt_tokens"], prompt_tokens);
}

}  // namespace
}  // namespace holdfast::process::prefill_test
