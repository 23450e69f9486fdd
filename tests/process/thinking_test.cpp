// Goal: a model reasons for as many tokens as it was granted and no more, whichever process is
// killed in the middle of it, and the usage tells how many those were. Method: `holdfast serve`
// with the demo model in a folder whose chat template opens the reasoning; each conversation once
// undisturbed, then all at once while a thread kills.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::thinking_test {
namespace {

using nlohmann::json;

class Thinking : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_program({"holdfast", "convert", demo_model(), folder}).code, 0);
    dir.write("model/chat_template.jinja",
              "{%- for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
              "{%- if add_generation_prompt %}assistant: <think>\n{% endif %}");
    ASSERT_TRUE(server.start({"--model", "m=" + folder, "--threads", "1"})) << server.errors();
  }
  json ask(int seed, int budget, const std::string& key) {
    const json body = {{"model", "m"},
                       {"messages", {{{"role", "user"}, {"content", "To be, or not to be?"}}}},
                       {"seed", seed},
                       {"temperature", 0.8},
                       {"max_tokens", 200},
                       {"ignore_eos", true},
                       {"thinking_token_budget", budget}};
    const HttpAnswer answer = http_exchange(
        server.url(),
        http_post_text("/v1/chat/completions", body.dump(), {{"Idempotency-Key", key}}));
    return json::parse(answer.body, nullptr, false);
  }
  static bool is_answer(const json& answer) {
    return answer.is_object() && answer.contains("choices");
  }
  static void expect_budget(const json& answer, int budget) {
    ASSERT_TRUE(is_answer(answer)) << answer.dump();
    EXPECT_EQ(answer["usage"]["completion_tokens"], 200);
    EXPECT_EQ(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], budget);
    const json& message = answer["choices"][0]["message"];
    EXPECT_FALSE(message["content"].get<std::string>().empty());
    EXPECT_EQ(message.contains("reasoning_content"), budget > 0);
  }

  const TempDir dir;
  const std::string folder = dir.path() + "/model";
  TestServer server{dir.path() + "/state"};
};

TEST_F(Thinking, ReasoningBudget_WhenProcessesAreKilled_IsExactToTheToken) {
  constexpr int kBudgets[] = {0, 1, 40, 90, 150};
  std::vector<json> expected;
  for (const int budget : kBudgets) {
    expected.push_back(ask(7, budget, "quiet-" + std::to_string(budget)));
    expect_budget(expected.back(), budget);
  }
  std::atomic<bool> done{false};
  std::thread killer([&] {
    for (int i = 0; !done && i < 12; ++i) {
      usleep(400'000);
      if (!done) server.kill_child(i % 3 == 2 ? "daemon" : "worker-0");
    }
  });
  for (int round = 0; round < 4; ++round) {
    std::vector<std::thread> clients;
    std::vector<json> got(std::size(kBudgets));
    for (std::size_t i = 0; i < std::size(kBudgets); ++i) {
      clients.emplace_back([&, i] {
        const std::string key = std::to_string(round) + "-" + std::to_string(i);
        // An answer may be lost with a connection; the same key leads to the same request.
        for (int tries = 0; tries < 60 && !is_answer(got[i]); ++tries) {
          if (tries > 0) usleep(100'000);
          got[i] = ask(7, kBudgets[i], key);
        }
      });
    }
    for (std::thread& client : clients) client.join();
    for (std::size_t i = 0; i < std::size(kBudgets); ++i) {
      expect_budget(got[i], kBudgets[i]);
      EXPECT_EQ(got[i]["choices"], expected[i]["choices"]) << kBudgets[i];
    }
  }
  done = true;
  killer.join();
  EXPECT_GT(server.restarts_of("worker-0"), 0) << "the kills did not hit";
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

}  // namespace
}  // namespace holdfast::process::thinking_test
