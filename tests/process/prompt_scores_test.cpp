// Goal: scores of a prompt are those of the raw logits, in every form of request, and each reader
// gets each of them once when workers, the daemon and the gateway are killed. Method: `holdfast
// serve` with the demo model against `holdfast logits`; answers and streams of a quiet run, then
// the same while a thread kills; the fake engine for what clients see of a prompt that is too long.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "shared/wire/prompt_scores.h"
#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::prompt_scores_test {
namespace {

using nlohmann::json;

const std::string kPrompt =
    "O Romeo, Romeo! wherefore art thou Romeo? Deny thy father and refuse thy name; or, if thou "
    "wilt not, be but sworn my love, and I'll no longer be a Capulet.";

class PromptScoresServerTest : public testing::Test {
 protected:
  void start(std::vector<std::string> more = {}) {
    server_ = std::make_unique<TestServer>(dir_.path() + "/state");
    more.insert(more.begin(), {"--model", "demo=" + demo_model(), "--threads", "1"});
    ASSERT_TRUE(server_->start(more)) << server_->errors();
  }
  json post(const std::string& path, const json& body, const std::string& key = "") {
    std::string request = http_post_text(path, body.dump());
    if (!key.empty()) {
      request.insert(request.find("\r\n") + 2, "Idempotency-Key: " + key + "\r\n");
    }
    return json::parse(http_exchange(server_->url(), request).body, nullptr, false);
  }
  json complete(json body, const std::string& key = "") {
    body.update({{"model", "demo"}, {"seed", 3}, {"echo", true}});
    if (!body.contains("prompt")) body["prompt"] = kPrompt;
    return post("/v1/completions", body, key);
  }

  TempDir dir_;
  std::unique_ptr<TestServer> server_;
};

TEST_F(PromptScoresServerTest, PromptLogprobs_AreTheLogSoftmaxOfTheRawLogits) {
  start();
  const json ids = json::parse(
      run_program({"holdfast", "--json", "tokenize", demo_model(), kPrompt}).out)["ids"];
  ASSERT_GT(ids.size(), 20u);
  std::string list;
  for (const json& id : ids) list += (list.empty() ? "" : ",") + id.dump();
  const json raw = json::parse(run_program({"holdfast", "--json", "logits", demo_model(),
                                            "--tokens", list, "--positions", "all"})
                                   .out)["logits"];
  ASSERT_EQ(raw.size(), ids.size());
  const json answer = complete({{"logprobs", 2}, {"max_tokens", 0}, {"prompt_logprobs", 1}});
  ASSERT_TRUE(answer.contains("choices")) << answer.dump();
  const json& choice = answer["choices"][0];
  const json& logs = choice["logprobs"];
  EXPECT_EQ(choice["text"], kPrompt);
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 0);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], ids.size());
  for (const char* name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
    ASSERT_EQ(logs[name].size(), ids.size()) << name;
  }
  EXPECT_TRUE(logs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logs["top_logprobs"][0].is_null());
  for (std::size_t i = 1; i < ids.size(); ++i) {
    const auto row = raw[i - 1].get<std::vector<double>>();
    double sum = 0;
    for (const double logit : row) sum += std::exp(logit - row[0]);
    const double expected = row[ids[i].get<std::size_t>()] - row[0] - std::log(sum);
    EXPECT_NEAR(logs["token_logprobs"][i].get<double>(), expected, 1e-4) << i;
    EXPECT_EQ(logs["top_logprobs"][i].size(), 2u);
    const json& score = choice["prompt_logprobs"][i][ids[i].dump()];
    EXPECT_EQ(score["logprob"], logs["token_logprobs"][i]);
    EXPECT_EQ(score["decoded_token"], logs["tokens"][i]);
    const std::string text = logs["tokens"][i];
    const auto at = logs["text_offset"][i].get<std::size_t>();  // the prompt is all ASCII
    EXPECT_EQ(kPrompt.substr(at, text.size()), text) << i;
  }
  // Where more is generated the prompt's scores are the same, and offsets go on after it.
  const json more = complete({{"logprobs", 2}, {"max_tokens", 5}})["choices"][0];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(more["logprobs"]["token_logprobs"][i], logs["token_logprobs"][i]);
  }
  EXPECT_EQ(more["logprobs"]["text_offset"][ids.size()], kPrompt.size());
  const json cli = json::parse(server_
                                   ->cli({"--json", "run", "demo", kPrompt, "--raw", "--max-tokens",
                                          "0", "--prompt-logprobs", "1"})
                                   .out)["choices"][0]["prompt"];
  ASSERT_EQ(cli.size(), ids.size());
  EXPECT_EQ(cli[1]["id"], ids[1]);
  EXPECT_FLOAT_EQ(cli[1]["logprob"].get<float>(), logs["token_logprobs"][1].get<float>());
  EXPECT_EQ(server_->stop(), 0) << server_->errors();
}

const char* const kKinds[] = {
    R"({"logprobs":2,"max_tokens":0})",
    R"({"logprobs":3,"max_tokens":60,"n":4,"temperature":0.9})",
    R"({"logprobs":0,"max_tokens":1,"prompt":["O Romeo","To be, or not to be"]})",
    R"({"logprobs":1,"max_tokens":0,"prompt":[[5,9,17,3,8,300],[1]],"n":2})",
    R"({"logprobs":5,"max_tokens":0,"n":6})",
    R"({"prompt_logprobs":4,"max_tokens":80,"temperature":0.7})",
    R"({"logprobs":1,"max_tokens":120,"mirostat":2,"temperature":0.8,"prompt_logprobs":2})",
};

/// Attempts that began anew before the first token, and so before the scores.
std::int64_t begun_again(const std::string& state) {
  sqlite3* db = nullptr;
  sqlite3_stmt* statement = nullptr;
  std::int64_t value = -1;
  const char* const sql =
      "SELECT count(*) - count(DISTINCT seq * 100 + choice) FROM attempts WHERE start_index = 0";
  sqlite3_open_v2((state + "/control.db").c_str(), &db, SQLITE_OPEN_READONLY, nullptr);
  if (sqlite3_prepare_v2(db, sql, -1, &statement, nullptr) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW) {
    value = sqlite3_column_int64(statement, 0);
  }
  sqlite3_finalize(statement);
  sqlite3_close(db);
  return value;
}

TEST_F(PromptScoresServerTest, PromptLogprobs_WhenProcessesAreKilled_AreTheSame) {
  start();
  const auto ask = [&](std::size_t kind, const std::string& key) {
    json body = {{"prompt", kPrompt + kPrompt + kPrompt + kPrompt}};
    body.update(json::parse(kKinds[kind]));
    const json answer = complete(body, key + std::to_string(kind));
    return answer.is_object() && answer.contains("choices") ? answer["choices"] : json();
  };
  std::vector<json> expected;
  for (std::size_t i = 0; i < std::size(kKinds); ++i) {
    expected.push_back(ask(i, "quiet-"));
    ASSERT_TRUE(expected.back().is_array()) << kKinds[i];
  }
  constexpr int kKills = 16;
  std::atomic<int> kills{0};
  std::thread killer([&] {
    for (; kills < kKills; ++kills) {
      usleep(250'000 + 30'000 * static_cast<unsigned>(kills % 5));
      const char* const victims[] = {"worker-0", "daemon", "worker-0", "gateway"};
      server_->kill_child(victims[kills % 4]);
    }
  });
  for (int round = 0; kills < kKills; ++round) {
    std::vector<std::thread> clients;
    std::vector<json> got(std::size(kKinds));
    for (std::size_t i = 0; i < std::size(kKinds); ++i) {
      clients.emplace_back([&, i] {
        // An answer may be lost with a connection; the same key leads to the same request.
        for (int tries = 0; tries < 100 && !got[i].is_array(); ++tries) {
          if (tries > 0) usleep(100'000);
          got[i] = ask(i, std::to_string(round) + "-");
        }
      });
    }
    for (std::thread& client : clients) client.join();
    for (std::size_t i = 0; i < std::size(kKinds); ++i) EXPECT_EQ(got[i], expected[i]) << kKinds[i];
  }
  killer.join();
  EXPECT_EQ(server_->stop(), 0) << server_->errors();
  const std::int64_t again = begun_again(server_->state());
  std::printf("%lld choices were begun again before their scores had come\n",
              static_cast<long long>(again));
  EXPECT_GE(again, 3) << "the kills did not hit";
}

/// Events of the SDK with the first token's scores: each reader gets every one, whatever is killed.
TEST_F(PromptScoresServerTest, PromptLogprobs_WithSeveralReaders_ReachEachOnce) {
  start({"--engine", "fake", "--engine-options", R"({"step_us":3000,"prefill_chunk":40})"});
  wire::Submit submit = make_submit("", 300, 9);
  submit.prompts[0] = {};
  submit.prompts[0].ids = std::vector<wire::TokenId>(200, 7);
  submit.prompts[0].ids->at(100) = 8;
  submit.sampling.prompt_logprobs = 3;
  const auto accepted = server_->client()->submit(client::Principal::local(), submit);
  ASSERT_TRUE(std::holds_alternative<wire::Accepted>(accepted));
  const std::string id = std::get<wire::Accepted>(accepted).info.request_id;
  std::atomic<int> received{0};
  std::vector<wire::PromptScores> scores(3);
  std::vector<std::int64_t> tokens(3);
  std::vector<std::thread> readers;
  for (std::size_t r = 0; r < scores.size(); ++r) {
    readers.emplace_back([&, r] {
      const auto client = server_->client();
      const auto fin =
          client->stream(client::AllTenants::local(), id, {}, [&](const wire::Event& event) {
            tokens[r] += static_cast<std::int64_t>(event.ids.size());
            for (const std::string& extra : event.extra) {
              const auto found = wire::read_prompt_scores(extra);
              if (!found) continue;
              EXPECT_EQ(event.start, 0);
              scores[r] = *found;
              ++received;
            }
          });
      EXPECT_TRUE(std::holds_alternative<wire::RequestInfo>(fin));
    });
  }
  for (const char* victim : {"worker-0", "daemon", "worker-0", "daemon"}) {
    usleep(100'000);
    server_->kill_child(victim);
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(received, 3);
  for (std::size_t r = 0; r < scores.size(); ++r) {
    EXPECT_EQ(tokens[r], 300);
    EXPECT_EQ(scores[r], scores[0]);
    EXPECT_EQ(scores[r].ids, *submit.prompts[0].ids);
    EXPECT_FALSE(scores[r].token_bytes.empty());
  }
  // A prompt that is too long for scores is refused with the numbers.
  ASSERT_EQ(server_->cli({"config", "set", "request.max_score_bytes=7000"}).code, 0);
  const auto refused = server_->client()->submit(client::Principal::local(), submit);
  ASSERT_TRUE(std::holds_alternative<client::Failure>(refused));
  EXPECT_EQ(std::get<client::Failure>(refused).needed, 200 * (12 + 8 * 3));
  EXPECT_EQ(std::get<client::Failure>(refused).largest, 7000);
  EXPECT_EQ(server_->stop(), 0) << server_->errors();
}

}  // namespace
}  // namespace holdfast::process::prompt_scores_test
