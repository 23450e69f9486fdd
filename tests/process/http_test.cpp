// Goal: the promise over HTTP: whichever process is killed in mid-stream, a client that repeats its
// POST with the same Idempotency-Key, or asks for the stream of its request, gets the text of the
// undisturbed run, no byte twice, none missing; and many requests at once get the text that each
// gets alone. Method: `holdfast serve` with the demo model, kills by pid from the stream's own
// callback (the request cannot have ended before), texts compared byte for byte.

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::http_test {
namespace {

using nlohmann::json;

constexpr std::int64_t kTokens = 400;
constexpr std::int64_t kKillAfter = 20;

const char* resume_name(Resume resume) {
  return resume == Resume::kPost ? "POST" : resume == Resume::kGet ? "GET" : "GET from";
}

json completion(const std::string& prompt, std::int64_t tokens, std::int64_t seed) {
  return {{"model", "demo"},    {"prompt", prompt}, {"max_tokens", tokens},
          {"temperature", 0.8}, {"seed", seed},     {"ignore_eos", true}};
}

json chat(const std::string& content, std::int64_t tokens, std::int64_t seed) {
  json body = completion("", tokens, seed);
  body.erase("prompt");
  body["messages"] = {{{"role", "user"}, {"content", content}}};
  return body;
}

class Http : public testing::Test {
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
  SseResult stream_with_resume(const std::string& path, json body, const std::string& key,
                               Resume resume,
                               const std::function<void(std::int64_t)>& on_progress = {}) {
    body["stream"] = true;
    return stream_sse(server_->url(), path, body.dump(), key, resume, on_progress);
  }
  HttpAnswer post(const std::string& path, const json& body, const std::string& key = "") {
    std::vector<std::pair<std::string, std::string>> headers;
    if (!key.empty()) headers.emplace_back("Idempotency-Key", key);
    return http_exchange(server_->url(), http_post_text(path, body.dump(), headers));
  }
  static std::string text_of(const HttpAnswer& answer) {
    const json body = json::parse(answer.body, nullptr, false);
    if (!body.is_object() || !body.contains("choices")) return "no answer: " + answer.body;
    const json& choice = body["choices"][0];
    return choice.contains("text") ? choice["text"] : choice["message"]["content"];
  }
  /// Expects the text of `expected` at every index that both saw, and at the end.
  void expect_same(const SseResult& result, const SseResult& expected) {
    EXPECT_EQ(result.failure, "") << server_->errors();
    EXPECT_EQ(result.text, expected.text);
    EXPECT_EQ(result.finish, expected.finish);
    EXPECT_EQ(result.index, expected.index);
    for (const auto& [index, text] : result.text_at) {
      const auto other = expected.text_at.find(index);
      if (other == expected.text_at.end()) continue;
      EXPECT_EQ(text, other->second) << "up to index " << index;
    }
  }

  TempDir dir_;
  std::unique_ptr<TestServer> server_;
};

TEST_F(Http, SseStream_WhenAProcessIsKilled_ResumesWithTheSameText) {
  const std::string path = "/v1/completions";
  const json body = completion("O Romeo, Romeo, wherefore art thou", kTokens, 1234);
  const SseResult expected = stream_with_resume(path, body, "quiet", Resume::kPost);
  ASSERT_EQ(expected.failure, "");
  ASSERT_EQ(expected.index, kTokens);
  ASSERT_EQ(expected.connections, 1);
  for (const char* name : {"gateway", "daemon", "worker-0"}) {
    for (const Resume resume : {Resume::kPost, Resume::kGet, Resume::kGetFrom}) {
      SCOPED_TRACE(std::string(name) + ", then " + resume_name(resume));
      bool killed = false;
      const std::string key = std::string(name) + "-" + resume_name(resume)[0] +
                              std::to_string(static_cast<int>(resume));
      const SseResult result = stream_with_resume(path, body, key, resume, [&](std::int64_t index) {
        if (!killed && index >= kKillAfter) killed = server_->kill_child(name);
      });
      EXPECT_TRUE(killed);
      expect_same(result, expected);
      // Only the gateway holds the connection; the death of another process must not end it.
      EXPECT_EQ(result.connections > 1, std::string(name) == "gateway");
    }
  }
}

TEST_F(Http, ChatStream_WhenEveryProcessIsKilled_GivesTheSameText) {
  const std::string path = "/v1/chat/completions";
  const json body = chat("Speak, Juliet:", kTokens, 99);
  const SseResult expected = stream_with_resume(path, body, "quiet", Resume::kPost);
  ASSERT_EQ(expected.failure, "");
  std::size_t next = 0;
  const std::vector<std::string> victims = {"gateway", "daemon", "worker-0", "gateway"};
  const SseResult result =
      stream_with_resume(path, body, "all", Resume::kPost, [&](std::int64_t index) {
        if (next == victims.size() || index < 10 + 30 * static_cast<std::int64_t>(next)) return;
        if (server_->kill_child(victims[next])) ++next;
      });
  // The last kill may come too late: after a restart all new text comes in one event.
  EXPECT_GE(next, victims.size() - 1);
  EXPECT_GE(result.connections, 2);
  expect_same(result, expected);
}

TEST_F(Http, IdempotencyKey_WhenTheGatewayIsKilled_ReturnsTheSameAnswer) {
  const json body = completion("All the world's a stage,", kTokens, 5);
  const std::string expected = text_of(post("/v1/completions", body, "quiet"));
  // The gateway dies while the answer is made; the client repeats until it has one.
  HttpAnswer cut;
  std::thread client([&] { cut = post("/v1/completions", body, "cut"); });
  const auto running = server_->operator_client();
  for (int i = 0; i < 2'000; ++i) {
    const auto answer = running->op(client::AllTenants::local(), "queue.stats", "{}");
    const auto* text = std::get_if<std::string>(&answer);
    if (text != nullptr && json::parse(*text)["running_choices"] == 1) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_TRUE(server_->kill_child("gateway"));
  client.join();
  EXPECT_FALSE(cut.complete) << "the kill came too late to cut the answer";
  HttpAnswer again;
  for (int tries = 0; tries < 500 && !again.complete; ++tries) {
    again = post("/v1/completions", body, "cut");
  }
  EXPECT_EQ(again.headers["x-holdfast-duplicate"], "true");
  EXPECT_EQ(text_of(again), expected);
  json other = body;
  other["seed"] = 6;
  EXPECT_EQ(post("/v1/completions", other, "cut").status, 422);
}

TEST_F(Http, HttpRequests_When32RunAtOnce_GiveTheTextOfEachAlone) {
  constexpr std::int64_t kRequests = 32;
  const auto ask = [&](std::int64_t i) {
    const std::string prompt = "Scene " + std::to_string(i) + ". Enter a king and " +
                               std::string(static_cast<std::size_t>(i * 7), 'a');
    const std::int64_t tokens = 4 + 5 * (i % 9);
    return i % 2 == 0 ? text_of(post("/v1/completions", completion(prompt, tokens, i)))
                      : text_of(post("/v1/chat/completions", chat(prompt, tokens, i)));
  };
  std::vector<std::string> alone;
  for (std::int64_t i = 0; i < kRequests; ++i) alone.push_back(ask(i));
  std::vector<std::string> together(kRequests);
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < kRequests; ++i) {
    threads.emplace_back([&, i] { together[static_cast<std::size_t>(i)] = ask(i); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(alone[i].find("no answer"), std::string::npos) << alone[i];
    EXPECT_FALSE(alone[i].empty()) << i;
    EXPECT_EQ(together[i], alone[i]) << i;
  }
}

// Goal: a request never allocates device memory: the worker's counter of device and engine
// allocations is the same before and after any number of requests. Method: a warm-up, then a
// thousand mixed ones, eight at a time; the counter of `workers list --json`, read when the
// worker's own count of tokens shows that it is from after the last request.
TEST_F(Http, Worker_DuringAThousandRequests_AllocatesNothing) {
  const auto worker = [&] {
    return json::parse(server_->cli({"--json", "workers", "list"}).out)["workers"][0];
  };
  const auto ask = [&](std::int64_t i) {
    const std::string prompt(static_cast<std::size_t>(1 + (i * 37) % 200), 'o');
    const json body = completion("Enter " + prompt, 1 + i % 6, i);
    return post("/v1/completions", body).status;
  };
  const auto ask_many = [&](std::int64_t count) {
    std::vector<std::thread> threads;
    std::vector<std::int64_t> good(8, 0);
    for (std::int64_t t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (std::int64_t i = t; i < count; i += 8)
          good[static_cast<std::size_t>(t)] += ask(i) == 200;
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::int64_t sum = 0;
    for (const std::int64_t n : good) sum += n;
    return sum;
  };
  const auto settled = [&] {  // the report comes once a second
    json now = worker();
    const auto target = json::parse(server_->cli({"--json", "status"}).out)["counters"]["tokens"];
    for (int i = 0; i < 200 && now["tokens"] < target; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      now = worker();
    }
    EXPECT_GE(now["tokens"], target);
    return now;
  };
  ASSERT_EQ(ask_many(64), 64);
  const json before = settled();
  ASSERT_GT(before["allocations"], 0) << before;
  EXPECT_EQ(ask_many(1'000), 1'000);
  const json after = settled();
  EXPECT_GT(after["tokens"], before["tokens"]);
  EXPECT_EQ(after["pid"], before["pid"]);
  EXPECT_EQ(after["allocations"], before["allocations"]);
}

}  // namespace
}  // namespace holdfast::process::http_test
