// Goal: one tenant's heap of work, waiting and running, delays no other: not in the model's queue,
// not in front of the helpers, not by asking for the highest priority. Method: a server with a key
// for each of two tenants; one asks for much, the other for little, and the latter's time is
// compared with its time against one request.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::tenants_test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

class Tenants : public testing::Test {
 protected:
  void start(const std::vector<std::string>& flags) {
    std::vector<std::string> all = {"--model", "demo=" + demo_model()};
    all.insert(all.end(), flags.begin(), flags.end());
    ASSERT_TRUE(server.start(all)) << server.errors();
    ann = make("ann");
    ben = make("ben");
    for (int i = 0; i < 100; ++i) {
      if (ask(ann, small()).status == 200 && ask(ben, small()).status == 200) return;
      usleep(50'000);
    }
    FAIL() << "the keys are not taken";
  }
  std::string make(const std::string& tenant, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"--json", "keys", "create", tenant, "--tenant", tenant};
    args.insert(args.end(), more.begin(), more.end());
    const Ended ended = server.cli(args);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return json::parse(ended.out).at("key");
  }
  static json small() { return {{"model", "demo"}, {"prompt", "To be"}, {"max_tokens", 2}}; }
  HttpAnswer ask(const std::string& key, const json& body,
                 const std::string& path = "/v1/completions") const {
    const std::string bearer = "Bearer " + key;
    return http_exchange(server.url(),
                         http_post_text(path, body.dump(), {{"Authorization", bearer}}));
  }
  /// Sends a request without waiting for it; it ends with the server.
  void leave(const std::string& key, const json& body,
             const std::string& path = "/v1/completions") {
    threads.emplace_back([this, key, body, path] { ask(key, body, path); });
  }
  /// The median time of so many small requests of ben, one after the other.
  milliseconds bens(int times = 5) const {
    std::vector<milliseconds> took;
    for (int i = 0; i < times; ++i) {
      const auto begin = steady_clock::now();
      EXPECT_EQ(ask(ben, small()).status, 200);
      took.push_back(std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin));
    }
    std::sort(took.begin(), took.end());
    return took[took.size() / 2];
  }
  /// Waits until so many choices run or wait.
  void until_queued(std::int64_t choices) const {
    for (int i = 0; i < 400; ++i) {
      const json stats = json::parse(server.cli({"--json", "queue", "stats"}).out, nullptr, false);
      if (stats.value("queued_choices", 0) + stats.value("running_choices", 0) >= choices) return;
      usleep(20'000);
    }
    FAIL() << "they do not come";
  }
  void heaps_of_choices_do_not_hold_up(int tokens) {
    json one = {{"model", "demo"}, {"prompt", "a"}, {"max_tokens", tokens}, {"ignore_eos", true}};
    leave(ann, one);
    until_queued(1);
    const milliseconds wait_with_one = bens();
    json heap = one;
    heap["n"] = 128;
    heap["prompt"] = std::vector<std::string>(16, "a");
    std::atomic<bool> ended{false};
    std::thread poster([&] {
      EXPECT_NE(ask(ann, heap).status, 400);
      ended = true;
    });
    until_queued(1500);
    const milliseconds wait_with_heap = bens();
    std::printf("beside one request %lld ms, beside 2,048 choices %lld ms\n",
                static_cast<long long>(wait_with_one.count()),
                static_cast<long long>(wait_with_heap.count()));
    EXPECT_LT(wait_with_heap, 5 * wait_with_one + milliseconds(500));
    EXPECT_FALSE(ended) << "the heap is there all the time";
    EXPECT_EQ(server.stop(), 0);
    poster.join();
  }
  void TearDown() override {
    if (server.supervisor_pid() != 0) {
      EXPECT_EQ(server.stop(), 0);
    }
    for (std::thread& thread : threads) thread.join();
  }

  const TempDir dir;
  TestServer server{dir.path() + "/state"};
  std::string ann, ben;
  std::vector<std::thread> threads;
};

TEST_F(Tenants, FairQueue_WhenATenantFloodsChoicesOnFakeEngine_DelaysNoOther) {
  start({"--engine", "fake", "--engine-options", R"({"step_us": 4000, "slots": 16})", "--config",
         "drain.limit_ms=100"});
  heaps_of_choices_do_not_hold_up(500);
}

TEST_F(Tenants, FairQueue_WhenATenantFloodsChoicesOnRealEngine_DelaysNoOther) {
  start({"--threads", "1", "--config", "drain.limit_ms=100"});
  heaps_of_choices_do_not_hold_up(500);
}

TEST_F(Tenants, IngressQueue_WhenATenantFloodsLongTexts_DelaysNoOther) {
  start({"--engine", "fake", "--config", "drain.limit_ms=100"});
  const milliseconds alone = bens();
  std::string text;
  while (text.size() < 900'000) text += "To be, or not to be, that is the question: ";
  for (int i = 0; i < 24; ++i) {
    leave(ann, {{"model", "demo"}, {"content", text}}, "/tokenize");
    leave(ann, {{"model", "demo"}, {"prompt", text}, {"max_tokens", 2}});
  }
  usleep(200'000);
  const milliseconds wait_with_texts = bens(1);
  const auto begin = steady_clock::now();
  EXPECT_EQ(ask(ben, {{"model", "demo"}, {"content", "a"}}, "/tokenize").status, 200);
  const auto tokenized = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  std::printf("alone %lld ms, beside 48 long texts %lld ms, /tokenize %lld ms\n",
              static_cast<long long>(alone.count()),
              static_cast<long long>(wait_with_texts.count()),
              static_cast<long long>(tokenized.count()));
  EXPECT_LT(wait_with_texts, milliseconds(3'000));
  EXPECT_LT(tokenized, milliseconds(3'000));
}

TEST_F(Tenants, InteractivePriority_WhenTheKeyDoesNotGrantIt_IsIgnored) {
  start({"--engine", "fake"});
  const std::string interactive_key = make("desk", {"--priority", "interactive"});
  json body = small();
  body["priority"] = "interactive";
  HttpAnswer answer;
  for (int i = 0; i < 100 && answer.status != 200; ++i) {
    usleep(50'000);
    answer = ask(interactive_key, body);
  }
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto priority_of = [&](const HttpAnswer& of) {
    const Ended show_result =
        server.cli({"--json", "requests", "show", of.headers.at("x-request-id")});
    return json::parse(show_result.out).at("priority").get<int>();
  };
  EXPECT_FALSE(answer.headers.contains("x-holdfast-ignored"));
  EXPECT_EQ(priority_of(answer), 0);
  for (const json& priority : {json("interactive"), json(-5)}) {
    body["priority"] = priority;
    answer = ask(ben, body);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.headers.at("x-holdfast-ignored"), "priority");
    EXPECT_EQ(priority_of(answer), 1);
  }
  body["priority"] = "batch";
  answer = ask(ben, body);
  EXPECT_EQ(priority_of(answer), 2);
  EXPECT_EQ(server.cli({"keys", "create", "x", "--priority", "urgent"}).code, 2);
  const json list = json::parse(server.cli({"--json", "keys", "list"}).out);
  EXPECT_EQ(list["keys"][0]["priority"], "normal");
  EXPECT_EQ(list["keys"][2]["priority"], "interactive");
  const std::string id = list["keys"][1]["id"];
  EXPECT_EQ(server.cli({"keys", "update", id, "--priority", "interactive"}).code, 0);
}

}  // namespace
}  // namespace holdfast::process::tenants_test
