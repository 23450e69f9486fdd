// Goal: with the real engine a model that nobody uses goes and comes back when it is asked for, by
// configuration and by keep_alive as Ollama's clients send it; requests are answered with the same
// text, also when the daemon dies meanwhile.
// Method: a server with the demo model and short times; GET /api/ps, `models list`.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::idle_unload_test {
namespace {

using nlohmann::json;

class IdleUnloads : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(
        server.start({"--model", "demo=" + demo_model(), "--config", "models.dwell_ms=100"}))
        << server.errors();
  }
  void TearDown() override {
    if (server.supervisor_pid() > 0) {
      EXPECT_EQ(server.stop(), 0) << server.errors();
    }
  }
  json ask(const std::string& path, const json& body) {
    const HttpAnswer answer = http_exchange(server.url(), http_post_text(path, body.dump()));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body, nullptr, false);
  }
  std::string text(const json& keep_alive = nullptr) {
    json body = {{"model", "demo"},
                 {"prompt", "To be"},
                 {"raw", true},
                 {"stream", false},
                 {"options", {{"seed", 1}, {"num_predict", 12}}}};
    if (!keep_alive.is_null()) body["keep_alive"] = keep_alive;
    return ask("/api/generate", body).value("response", std::string());
  }
  std::size_t loaded() {
    const HttpAnswer answer = http_exchange(server.url(), http_get_text("/api/ps"));
    return json::parse(answer.body).at("models").size();
  }
  /// Waits until so many models are loaded.
  bool becomes(std::size_t models) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < until) {
      if (loaded() == models) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  TempDir dir;
  TestServer server{dir.path() + "/state"};
};

TEST_F(IdleUnloads, Model_WithKeepAlives_GoesAndComesBackWithTheSameText) {
  const std::string first = text();
  ASSERT_FALSE(first.empty());
  EXPECT_EQ(loaded(), 1u) << "nothing says that it goes";

  EXPECT_EQ(text("1s"), first);
  EXPECT_TRUE(becomes(0));
  EXPECT_EQ(text(-1), first) << "it was loaded again";
  EXPECT_EQ(loaded(), 1u);
  EXPECT_EQ(text(0), first);
  EXPECT_TRUE(becomes(0));

  EXPECT_EQ(ask("/api/generate", {{"model", "demo"}, {"stream", false}})["done_reason"], "load");
  EXPECT_EQ(loaded(), 1u);
  EXPECT_EQ(ask("/api/generate", {{"model", "demo"}, {"keep_alive", 0}})["done_reason"], "unload");
  EXPECT_TRUE(becomes(0));
  EXPECT_EQ(text(), first);
}

TEST_F(IdleUnloads, KeepAlive_OverADeathOfTheDaemon_Holds) {
  const std::string first = text("2s");
  ASSERT_TRUE(server.kill_child("daemon"));
  EXPECT_TRUE(becomes(0));
  EXPECT_EQ(text(), first);
}

TEST_F(IdleUnloads, Model_WithAConfiguredTime_GoesAndIsToldInPs) {
  EXPECT_EQ(server.cli({"config", "set", "model.demo.idle_unload_s=2"}).code, 0);
  const std::string first = text();
  const HttpAnswer ps = http_exchange(server.url(), http_get_text("/api/ps"));
  const json models = json::parse(ps.body).at("models");
  ASSERT_EQ(models.size(), 1u);
  EXPECT_FALSE(models[0]["expires_at"].get<std::string>().starts_with("9999"));
  EXPECT_TRUE(becomes(0));
  // Ten at once load it once, and lose nothing.
  std::vector<std::thread> clients;
  std::vector<std::string> texts(10);
  for (std::string& one : texts) clients.emplace_back([&] { one = text(); });
  for (std::thread& client : clients) client.join();
  for (const std::string& one : texts) EXPECT_EQ(one, first);
  EXPECT_EQ(server.cli({"models", "pin", "demo"}).code, 0);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  EXPECT_EQ(loaded(), 1u) << "a pinned model stays";
}

TEST_F(IdleUnloads, Names_OfModels_AreCopiedAndDeletedOverOllamasApi) {
  const std::string first = text();
  const auto change = [&](const std::string& method, const std::string& path, const json& body) {
    const std::string sent = body.dump();
    return http_exchange(server.url(), method + " " + path +
                                           " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                                           std::to_string(sent.size()) + "\r\n\r\n" + sent)
        .status;
  };
  EXPECT_EQ(change("POST", "/api/copy", {{"source", "demo"}, {"destination", "other"}}), 200);
  const json answer = ask("/api/generate", {{"model", "other"},
                                            {"prompt", "To be"},
                                            {"raw", true},
                                            {"stream", false},
                                            {"options", {{"seed", 1}, {"num_predict", 12}}}});
  EXPECT_EQ(answer["response"], first);
  EXPECT_EQ(change("DELETE", "/api/delete", {{"model", "nobody"}}), 404);
  EXPECT_EQ(change("DELETE", "/api/delete", {{"model", "other"}}), 200) << "it was loaded";
  EXPECT_EQ(change("DELETE", "/api/delete", {{"model", "other"}}), 404);
}

}  // namespace
}  // namespace holdfast::process::idle_unload_test
