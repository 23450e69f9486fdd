// Goal: vectors come through the durable queue with the bits that the engine gives them alone, from
// decoders and encoders, also when workers and the daemon are killed; impossible requests are
// refused. Method: `holdfast serve` with the demo model and a small encoder; /v1/embeddings against
// `holdfast embed`; then many requests while processes are killed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::embeddings_test {
namespace {

using nlohmann::json;

class EmbeddingServerTest : public testing::Test {
 protected:
  void SetUp() override {
    encoder_ = dir_.path() + "/encoder.gguf";
    ASSERT_EQ(run_program({"holdfast", "synth", "--arch", "bert", encoder_}).code, 0);
    server_ = std::make_unique<TestServer>(dir_.path() + "/state");
    ASSERT_TRUE(server_->start(
        {"--model", "demo=" + demo_model(), "--model", "encoder=" + encoder_, "--threads", "1"}))
        << server_->errors();
  }
  HttpAnswer post(const std::string& path, const json& body, const std::string& key = "") {
    std::string request = http_post_text(path, body.dump());
    if (!key.empty()) {
      request.insert(request.find("\r\n") + 2, "Idempotency-Key: " + key + "\r\n");
    }
    return http_exchange(server_->url(), request);
  }
  json vectors(const json& body, const std::string& key = "") {
    const HttpAnswer answer = post("/v1/embeddings", body, key);
    const json document = json::parse(answer.body, nullptr, false);
    EXPECT_TRUE(document.is_object() && document.contains("data")) << answer.body;
    return document;
  }
  static std::vector<float> floats(const json& numbers) {
    return numbers.get<std::vector<float>>();
  }
  /// The vector of the same ids by `holdfast embed`.
  static std::vector<float> alone(const std::string& file, const std::string& ids) {
    const Ended ended = run_program({"holdfast", "--json", "embed", file, "--tokens", ids});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return floats(json::parse(ended.out)["data"][0]["embedding"]);
  }

  TempDir dir_;
  std::string encoder_;
  std::unique_ptr<TestServer> server_;
};

TEST_F(EmbeddingServerTest, Embedding_ThroughTheServer_GivesBitsOfTheEngineAlone) {
  const json ids = json::array({json::array({5, 9, 17, 3}), json::array({8, 1, 2})});
  for (const auto& [model, file] : {std::pair(std::string("demo"), demo_model()),
                                    std::pair(std::string("encoder"), encoder_)}) {
    const json both = vectors({{"model", model}, {"input", ids}});
    EXPECT_EQ(both["usage"]["prompt_tokens"], 7);
    EXPECT_EQ(floats(both["data"][0]["embedding"]), alone(file, "5,9,17,3")) << model;
    EXPECT_EQ(floats(both["data"][1]["embedding"]), alone(file, "8,1,2")) << model;
  }
  const json text = vectors({{"model", "demo"}, {"input", "O Romeo"}});
  EXPECT_EQ(text["data"].size(), 1u);
}

TEST_F(EmbeddingServerTest, Embedding_WithAnEmptyInputOrUnsuitedModel_IsRefused) {
  const HttpAnswer chat = post("/v1/completions", {{"model", "encoder"}, {"prompt", {1, 2}}});
  EXPECT_EQ(json::parse(chat.body)["error"]["code"], "unsupported") << chat.body;
  const HttpAnswer empty = post("/v1/embeddings", {{"model", "demo"}, {"input", ""}});
  EXPECT_EQ(json::parse(empty.body)["error"]["code"], "invalid_request") << empty.body;
  const json show = json::parse(server_->cli({"--json", "models", "show", "encoder"}).out);
  EXPECT_EQ(show["makes"], "vectors");
}

TEST_F(EmbeddingServerTest, ModelsVerify_OfAnEncoder_StoresThenConfirmsItsAnswer) {
  for (const char* found : {"stored", "the same"}) {
    const Ended ended = server_->cli({"models", "verify", "encoder"});
    EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
    EXPECT_NE(ended.out.find(found), std::string::npos) << ended.out;
  }
}

TEST_F(EmbeddingServerTest, Embedding_WhenProcessesAreKilled_GivesSameBits) {
  constexpr int kInputs = 40;
  constexpr int kRequests = 24;
  const auto body = [](int i) {
    json inputs = json::array();
    for (int k = 0; k < kInputs; ++k) {
      json ids = json::array();
      for (int t = 0; t < 60; ++t) ids.push_back((i * 7 + k * 13 + t * 3) % 90);
      inputs.push_back(ids);
    }
    return json{{"model", i % 2 == 0 ? "demo" : "encoder"}, {"input", inputs}};
  };
  std::vector<json> expected;
  for (int i = 0; i < kRequests; ++i) {
    expected.push_back(vectors(body(i), "quiet-" + std::to_string(i))["data"]);
  }
  std::atomic<bool> done{false};
  std::thread killer([&] {
    for (int i = 0; !done && i < 12; ++i) {
      usleep(150'000);
      if (!done) server_->kill_child(i % 3 == 2 ? "daemon" : "worker-0");
    }
  });
  std::vector<std::thread> clients;
  std::vector<json> received(kRequests);
  for (int i = 0; i < kRequests; ++i) {
    clients.emplace_back(
        [&, i] { received[i] = vectors(body(i), "disturbed-" + std::to_string(i))["data"]; });
  }
  for (std::thread& client : clients) client.join();
  done = true;
  killer.join();
  for (int i = 0; i < kRequests; ++i) EXPECT_EQ(received[i], expected[i]) << i;
}

}  // namespace
}  // namespace holdfast::process::embeddings_test
