// Goal: keys of one sharing group find each other's prefixes as one key finds its own, and a key of
// another group learns nothing of them by trying. Method: a server with the demo model; sixteen
// keys with one system prompt against one key that asks the same, by the counts of the metrics; a
// tenant that tries two hundred prompts, another's among them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::prefix_sharing_test {
namespace {

using nlohmann::json;

constexpr int kKeys = 16, kTurns = 4, kProbes = 200;

class PrefixSharing : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(server.start({"--model", "demo=" + demo_model(), "--threads", "1"}))
        << server.errors();
    boss = make("boss", "operator");
  }
  std::string make(const std::string& tenant, const std::string& role = "client") {
    const Ended ended =
        server.cli({"--json", "keys", "create", tenant, "--tenant", tenant, "--role", role});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return json::parse(ended.out).at("key");
  }
  void share(const std::string& tenant, const std::string& group) {
    ASSERT_EQ(server.cli({"config", "set", "tenant." + tenant + ".share_prefixes=" + group}).code,
              0);
  }
  json ask(const std::string& key, const std::string& prompt) {
    const json body = {{"model", "demo"}, {"prompt", prompt}, {"max_tokens", 1}};
    HttpAnswer answer;
    for (int i = 0; i < 100 && answer.status != 200; ++i) {
      answer = http_exchange(server.url(), http_post_text("/v1/completions", body.dump(),
                                                          {{"Authorization", "Bearer " + key}}));
      if (answer.status != 200) usleep(50'000);  // a gateway reads a new key within a second
    }
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body, nullptr, false);
  }
  /// Tokens of a sharing group that were looked up, and found, by /metrics.
  std::pair<double, double> counts(const std::string& group) {
    const std::string text =
        http_exchange(server.url(),
                      http_get_text("/metrics", {{"Authorization", "Bearer " + boss}}))
            .body;
    const auto value = [&](const std::string& family) {
      const std::string row =
          "holdfast_prefix_cache_" + family + "_total{group=\"" + group + "\"} ";
      const std::size_t at = text.find(row);
      return at == std::string::npos ? 0 : std::atof(text.c_str() + at + row.size());
    };
    return {value("queries"), value("hits")};
  }
  double ratio(const std::string& group) {
    const auto [queries, hits] = counts(group);
    EXPECT_GT(queries, 0) << group;
    return hits / queries;
  }
  static std::string system_prompt(const std::string& who) {
    std::string text = who + ": ";
    while (text.size() < 600) text += "You are a patient clerk. Answer in few words. ";
    return text;
  }

  const TempDir dir;
  TestServer server{dir.path() + "/state"};
  std::string boss;
};

TEST_F(PrefixSharing, Usage_WhenThePrefixIsCached_ReportsCachedTokens) {
  const std::string key = make("one"), other = make("two");
  const auto cached = [&](const std::string& who, const std::string& prompt) {
    const json usage = ask(who, prompt).value("usage", json::object());
    return usage.at("prompt_tokens_details").at("cached_tokens").get<int>();
  };
  const std::string prompt = system_prompt("clerk");
  EXPECT_EQ(cached(key, prompt), 0);
  const int found = cached(key, prompt);
  EXPECT_GE(found, 64) << "a page at least";
  EXPECT_EQ(counts("tenant one").second, found) << "what the metrics count";
  EXPECT_EQ(cached(other, prompt), 0) << "another tenant's";
  // The next worker starts with an empty cache; the answer of a request stays the same.
  server.kill_child("worker-0");
  EXPECT_EQ(cached(key, prompt), 0);
}

TEST_F(PrefixSharing, PrefixCache_WithKeysOfOneGroup_HitsAsOftenAsWithOneKey) {
  const std::string alone = make("alone");
  std::vector<std::string> keys;
  for (int k = 0; k < kKeys; ++k) {
    keys.push_back(make("team" + std::to_string(k)));
    share("team" + std::to_string(k), "product");
  }
  for (int turn = 0; turn < kTurns; ++turn) {
    for (int k = 0; k < kKeys; ++k) {
      const std::string question = "Question " + std::to_string(turn * kKeys + k);
      ask(alone, system_prompt("A") + question);
      ask(keys[static_cast<std::size_t>(k)], system_prompt("B") + question);
    }
  }
  const double one = ratio("tenant alone");
  const double group = ratio("group product");
  std::printf("one key finds %.4f of its prompts' tokens, %d keys of a group %.4f: %.3f of it\n",
              one, kKeys, group, group / one);
  EXPECT_GT(one, 0.5) << "there is something to find";
  EXPECT_GE(group, 0.95 * one);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(PrefixSharing, PrefixCache_WhenAnotherGroupTriesThePrompt_GivesNoHit) {
  const std::string victim = make("victim");
  const std::string attacker = make("guesser");
  const int secret = 137;
  const auto prompt = [](int number) {
    return system_prompt("My number is " + std::to_string(number));
  };
  int tries_that_found = 0;
  double found = 0;
  for (int number = 0; number < kProbes; ++number) {
    if (number == secret) {  // its pages are there at that moment
      ask(victim, prompt(secret));
      ask(victim, prompt(secret));
      EXPECT_GT(counts("tenant victim").second, 0) << "its own is found";
    }
    ask(attacker, prompt(number));
    const double now = counts("tenant guesser").second;
    tries_that_found += now > found;
    found = now;
  }
  std::printf("%d guesses, the right one among them: %d found something\n", kProbes,
              tries_that_found);
  EXPECT_EQ(tries_that_found, 0);
  // The count is not blind: the attacker's own prompt is found the second time.
  ask(attacker, prompt(kProbes - 1));
  EXPECT_GT(counts("tenant guesser").second, 0);
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::prefix_sharing_test
