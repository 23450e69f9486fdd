// Goal: keys of one sharing group find each other's beginnings as one key finds its own, and a key
// of another group learns nothing of them by trying. Method: a house with the demo model; sixteen
// keys with one system prompt against one key that asks the same, by the counts of the metrics; a
// tenant that guesses another's prompt two hundred times, the right one among them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/process/house.h"
#include "tests/process/http_stream.h"

namespace holdfast::process::prefix_sharing_test {
namespace {

using nlohmann::json;

constexpr int kKeys = 16, kTurns = 4, kGuesses = 200;

class PrefixSharing : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(house.start({"--model", "demo=" + demo_model(), "--threads", "1"}))
        << house.errors();
    boss = make("boss", "operator");
  }
  std::string make(const std::string& tenant, const std::string& role = "client") {
    const Ended ended =
        house.cli({"--json", "keys", "create", tenant, "--tenant", tenant, "--role", role});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return json::parse(ended.out).at("key");
  }
  void share(const std::string& tenant, const std::string& group) {
    ASSERT_EQ(house.cli({"config", "set", "tenant." + tenant + ".share_prefixes=" + group}).code,
              0);
  }
  json ask(const std::string& key, const std::string& prompt) {
    const json body = {{"model", "demo"}, {"prompt", prompt}, {"max_tokens", 1}};
    HttpAnswer answer;
    for (int i = 0; i < 100 && answer.status != 200; ++i) {
      answer = http_exchange(house.url(), http_post_text("/v1/completions", body.dump(),
                                                         {{"Authorization", "Bearer " + key}}));
      if (answer.status != 200) usleep(50'000);  // a key is taken within a second
    }
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body, nullptr, false);
  }
  /// Of a sharing group, as /metrics names it: tokens that were looked up, and found.
  std::pair<double, double> counts(const std::string& group) {
    const std::string text =
        http_exchange(house.url(), http_get_text("/metrics", {{"Authorization", "Bearer " + boss}}))
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
  House house{dir.path() + "/state"};
  std::string boss;
};

TEST_F(PrefixSharing, TheUsageSaysWhatWasFound) {
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
  // The worker that comes next has nothing in its cache; the answer of a request stays.
  house.kill_child("worker-0");
  EXPECT_EQ(cached(key, prompt), 0);
}

TEST_F(PrefixSharing, KeysOfAGroup_FindWhatOneKeyWouldFind) {
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
  EXPECT_EQ(house.stop(), 0);
}

TEST_F(PrefixSharing, AnotherGroupsPrompt_IsNotFoundByGuessing) {
  const std::string victim = make("victim");
  const std::string guesser = make("guesser");
  const int secret = 137;
  const auto prompt = [](int number) {
    return system_prompt("My number is " + std::to_string(number));
  };
  int tries_that_found = 0;
  double found = 0;
  for (int number = 0; number < kGuesses; ++number) {
    if (number == secret) {  // its pages are there at that moment
      ask(victim, prompt(secret));
      ask(victim, prompt(secret));
      EXPECT_GT(counts("tenant victim").second, 0) << "its own is found";
    }
    ask(guesser, prompt(number));
    const double now = counts("tenant guesser").second;
    tries_that_found += now > found;
    found = now;
  }
  std::printf("%d guesses, the right one among them: %d found something\n", kGuesses,
              tries_that_found);
  EXPECT_EQ(tries_that_found, 0);
  // The count is no blind one: the guesser's own prompt is found at the second time.
  ask(guesser, prompt(kGuesses - 1));
  EXPECT_GT(counts("tenant guesser").second, 0);
  EXPECT_EQ(house.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::prefix_sharing_test
