// Goal: whatever a request asks of the sampler, its answer is the same when workers and the daemon
// are killed again and again in the middle of it: several choices, logprobs, penalties, stops,
// schemas, and samplers with a state of their own.
// Method: `holdfast serve` with the demo model; each kind of request once undisturbed, then all at
// once while a thread kills; the choices are compared as JSON, logprobs included.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::resumed_sampling_test {
namespace {

using nlohmann::json;

const char* const kKinds[] = {
    R"({"n":4,"temperature":0.9})",
    R"({"n":2,"temperature":0.8,"logprobs":3})",
    R"({"temperature":1.1,"repetition_penalty":1.3,"presence_penalty":0.4,
        "frequency_penalty":0.2})",
    R"({"temperature":0.9,"stop":["Romeo","\n\n","love "],"logprobs":0})",
    R"({"temperature":0.9,"mirostat":2,"mirostat_tau":3,"logprobs":1})",
    R"({"temperature":1.0,"mirostat":2,"mirostat_tau":2,"n":2,"banned_strings":["the","and "]})",
    R"({"temperature":0.9,"dry_multiplier":0.8,"xtc_probability":0.5,"xtc_threshold":0.05})",
    R"({"temperature":1.0,"typical_p":0.7,"top_n_sigma":1.5,"top_a":0.2,
        "samplers":["top_k","typ_p","top_a","temperature"]})",
    R"({"temperature":0.9,"banned_strings":["Romeo","a"],"logit_bias":{"40":2}})",
    R"({"temperature":0.9,"n":2,"logprobs":2,"guided_json":{"type":"object","properties":{"a":
        {"type":"array","items":{"type":"string","maxLength":30},"minItems":6,"maxItems":6}},
        "required":["a"],"additionalProperties":false}})",
    R"({"temperature":0.9,"mirostat":2,"guided_regex":"([a-z]{2,9} ){30,40}[.]"})",
    R"({"temperature":0,"min_tokens":50,"repeat_last_n":20,"repetition_penalty":1.2})"};

class ResumedSampling : public testing::Test {
 protected:
  void SetUp() override {
    server_ = std::make_unique<TestServer>(dir_.path() + "/state");
    ASSERT_TRUE(server_->start({"--model", "demo=" + demo_model(), "--threads", "1"}))
        << server_->errors();
  }
  /// The choices of the answer; the answer itself, if it has none.
  json ask(const std::string& kind, const std::string& key) {
    json body = {{"model", "demo"}, {"prompt", "O Romeo, "}, {"max_tokens", 260}, {"seed", 11}};
    body.update(json::parse(kind));
    std::string request = http_post_text("/v1/completions", body.dump());
    request.insert(request.find("\r\n") + 2, "Idempotency-Key: " + key + "\r\n");
    const HttpAnswer answer = http_exchange(server_->url(), request);
    const json parsed = json::parse(answer.body, nullptr, false);
    return parsed.is_object() && parsed.contains("choices") ? parsed["choices"] : parsed;
  }
  std::int64_t counter(const std::string& name) {
    const json status = json::parse(server_->cli({"--json", "status"}).out, nullptr, false);
    return status.is_object() ? status["counters"].value(name, std::int64_t{0}) : 0;
  }

  TempDir dir_;
  std::unique_ptr<TestServer> server_;
};

TEST_F(ResumedSampling, Sampling_WhenResumedAfterKills_GivesTheUndisturbedChoices) {
  std::vector<json> expected;
  for (std::size_t i = 0; i < std::size(kKinds); ++i) {
    expected.push_back(ask(kKinds[i], "quiet-" + std::to_string(i)));
    ASSERT_TRUE(expected.back().is_array()) << kKinds[i] << expected.back().dump();
  }
  constexpr int kRounds = 2;
  constexpr int kKills = 60;  // a bound: the last requests end undisturbed
  std::atomic<bool> done{false};
  std::int64_t resumed = 0;
  std::thread killer([&] {
    for (int i = 0; !done && i < kKills; ++i) {
      // Some tokens must have come since the last kill: on a slow machine nothing would end
      // otherwise.
      const std::int64_t before = counter("tokens");
      for (int waits = 0; !done && waits < 400 && counter("tokens") < before + 150; ++waits) {
        usleep(20'000);
      }
      // Counters begin at 0 with each start of the daemon.
      if (i % 3 == 2) resumed += counter("resumed");
      server_->kill_child(i % 3 == 2 ? "daemon" : "worker-0");
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::thread> clients;
    std::vector<json> got(std::size(kKinds));
    for (std::size_t i = 0; i < std::size(kKinds); ++i) {
      clients.emplace_back([&, i] {
        const std::string key = std::to_string(round) + "-" + std::to_string(i);
        // An answer may be lost with a connection; the same key leads to the same request.
        for (int tries = 0; tries < 40 && !got[i].is_array(); ++tries) {
          if (tries > 0) usleep(100'000);
          got[i] = ask(kKinds[i], key);
        }
      });
    }
    for (std::thread& client : clients) client.join();
    for (std::size_t i = 0; i < std::size(kKinds); ++i) EXPECT_EQ(got[i], expected[i]) << kKinds[i];
  }
  done = true;
  killer.join();
  std::printf("%lld choices were resumed in the middle\n", static_cast<long long>(resumed));
  EXPECT_GE(resumed, 10) << "the kills did not hit";
  EXPECT_EQ(server_->stop(), 0) << server_->errors();
}

}  // namespace
}  // namespace holdfast::process::resumed_sampling_test
